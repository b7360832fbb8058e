"""Topics that change under a pipeline: recreated, damaged on disk, deleted before they are read."""

import json
import shutil
from contextlib import closing

import pytest

from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.errors import ConnectorError, StateError
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load
from streamboost.pipelines.state.folder import State
from tests.pipelines.operated import checkpoints, damage, delete, predicted, put
from tests.slow import slow
from tests.waiting import until

pytestmark = pytest.mark.kafka


def make_again(made, section="records"):
    topic = f"{made.name}.{section}"
    with closing(made.cluster.create_admin_client()) as admin:
        admin.delete_topics([topic])
    until(lambda: not exists(made, topic))
    create_topics(made.cluster, {topic: {}})


def exists(made, topic):
    with closing(made.cluster.create_admin_client()) as admin:
        return topic in admin.list_topics()


def letters(made):
    with closing(KafkaSource(made.cluster, f"{made.name}.dead_letters")) as source:
        return [json.loads(message.payload) for message in source.poll(100)]


def change(made, before, after):
    text = made.file.read_text()
    assert before in text
    made.file.write_text(text.replace(before, after))
    made.config = load(made.file)


@pytest.mark.parametrize("section", ["records", *slow("labels")])
def test_a_topic_made_again_while_it_was_down_is_never_read_on(made, make_records, section):
    made = made()
    put(made, make_records(40)[0])
    put(made, [{"id": "1", "label": "left"}], topic="labels")
    run(made.config, until_idle=True)
    make_again(made, section)
    put(made, make_records(90, start=100)[0], topic=section)
    with pytest.raises(StateError, match=f"the topic of the {section} was deleted and recreated"):
        run(made.config, until_idle=True)
    shutil.rmtree(checkpoints(made).folder)
    with pytest.raises(StateError, match=f"the topic of the {section} was deleted and recreated"):
        run(made.config, until_idle=True)
    assert len(predicted(made)) == 40


@pytest.mark.slow
def test_a_topic_made_again_under_a_running_pipeline_ends_it(
    made, make_records, streamboost_command
):
    made = made()
    put(made, make_records(20)[0])
    process = streamboost_command.start("run", "p.toml")
    until(lambda: len(predicted(made)) == 20)
    make_again(made)
    put(made, make_records(90, start=100)[0])
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"topic '{made.name}.records' at" in said
    assert "was deleted and recreated" in said or "does not exist" in said
    assert len(predicted(made)) == 20


@pytest.mark.slow
def test_a_journal_made_again_under_a_running_pipeline_ends_it(
    made, make_records, streamboost_command
):
    made = made()
    put(made, make_records(20)[0])
    process = streamboost_command.start("run", "p.toml")
    until(lambda: len(predicted(made)) == 20)
    make_again(made, "journal")
    put(made, make_records(20, start=20)[0])
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"topic '{made.name}.journal' at" in said
    assert "was deleted" in said


@pytest.mark.slow
def test_records_deleted_unread_are_passed_over_and_counted_where_gaps_are_no_reason_to_stop(
    made, make_records, caplog
):
    made = made()
    records = make_records(200)[0]
    put(made, records[:40])
    run(made.config, until_idle=True)
    put(made, records[40:100])
    delete(made, f"{made.name}.records", 75)
    with pytest.raises(ConnectorError, match=r'offsets 40 to 74 .* on_data_loss = "continue"'):
        run(made.config, until_idle=True)
    change(made, "[schema]", 'on_data_loss = "continue"\n[schema]')
    newest = run(made.config, until_idle=True)
    assert predicted(made) == [str(i) for i in (*range(40), *range(75, 100))]
    assert "offsets 40 to 74 of partition 0 were deleted before they were read" in caplog.text
    known = State(made.config.state).checkpoints.newest()[1]
    assert (known["deleted_unread"], known["lost_batches"]) == (35, 0)
    put(made, records[100:160])
    run(made.config, until_idle=True)
    checkpoints(made).remove_after(2)
    run(made.config, until_idle=True)
    assert predicted(made) == [str(i) for i in (*range(40), *range(75, 160))]
    assert State(made.config.state).checkpoints.newest()[1]["deleted_unread"] == 35
    assert newest > 2


@pytest.mark.slow
def test_a_damaged_batch_is_named_and_can_be_stepped_over_with_a_dead_letter(
    made, broker, make_records
):
    made = made()
    records = make_records(120)[0]
    for start in range(0, 120, 30):  # a batch of the topic each
        put(made, records[start : start + 30])
    run_records = run(made.config, until_idle=True)
    assert run_records
    more = make_records(120, start=120)[0]
    for start in range(0, 120, 30):
        put(made, more[start : start + 30])
    damage(broker, made, '"id": "160"')
    named = rf"topic '{made.name}.records' at .*: the messages at offset 150 to 179 of partition 0"
    with pytest.raises(ConnectorError, match=named):
        run(made.config, until_idle=True)
    assert predicted(made) == [str(i) for i in range(150)]
    change(made, "[committee]", 'on_corrupt = "skip"\n[committee]')
    run(made.config, until_idle=True)
    assert predicted(made) == [str(i) for i in (*range(150), *range(180, 240))]
    (letter,) = letters(made)
    assert letter["reason"] == "corrupt"
    assert letter["position"] == {"0": 150}
    assert "150 to 179 of partition 0 are damaged" in letter["detail"]
    assert "bit for bit" in verify_replay(made.config)
