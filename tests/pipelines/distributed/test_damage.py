"""Damaged messages in distributed scoring: each is reported, and no process waits for ever."""

import re
from contextlib import closing

import pytest

from streamboost.connectors.kafka.compacted_topic import CompactedTopicReader
from streamboost.connectors.kafka.group.committed_reader import CommittedReader
from streamboost.errors import ConnectorError, UnavailableError
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.score import build_scorer
from streamboost.pipelines.config.file import load
from streamboost.pipelines.distributed.topics import models_topic, scoring_log_topic
from streamboost.pipelines.shutdown import StopToken
from tests.pipelines.operated import damage
from tests.pipelines.scored_distributed import (
    assert_progress_goes_on,
    turn,
    until_scored,
)
from tests.waiting import until

pytestmark = pytest.mark.kafka

DAMAGED = {
    None: "empty",
    b"": "empty",
    b"\xff\xfe": "bad_json",
    b'{"id": "x", "a": ': "bad_json",
    b'{"id": "x", "a": NaN}': "bad_json",
    b"[1, 2]": "wrong_type",
    b'{"id": ["x"], "a": 1}': "wrong_type",
    b'{"id": "x", "a": "one"}': "wrong_type",
    b'{"id": "x", "a": 1e39}': "infinite",
    b'{"a": 1}': "missing_id",
    b'{"id": "0", "a": 1}': "duplicate_id",
    b'{"id": "x", "a": "%s"}' % (b"long" * 60_000): "too_large",
}
LATER = b'{"id": "20", "a": 1, "b": 2, "c": 3, "d": 4, "of a later release": {"e": [5]}}'


def test_a_damaged_record_becomes_its_dead_letter_whoever_meets_it(make_world, scorer):
    world = make_world(partitions=1, schema="max_record_bytes = 200000")
    with closing(world.cluster.create_producer()) as producer:
        for payload in (*DAMAGED, LATER):
            producer.send(f"{world.name}.records", payload, key=b"0", partition=0)
        producer.flush()
    world.sent += 1
    world.send(20)
    one = scorer(world)
    until_scored(world, one)
    one.close()
    world.send(20)
    until_scored(world, scorer(world))
    letters = [letter for found in world.read("dead_letters").values() for _, letter in found]
    assert [each["reason"] for each in letters] == list(DAMAGED.values())
    assert [each["position"]["0"] for each in letters] == list(range(20, 20 + len(DAMAGED)))
    ids = [p["id"] for _, p in world.read("predictions")[0]]
    assert ids == [str(i) for i in range(world.sent)]
    assert_progress_goes_on(world)
    run(world.config, until_idle=True)
    known = world.known()
    assert known["dead_letters"] == len(DAMAGED)
    assert known["ledger"]["records"] == world.sent


@pytest.mark.slow
def test_a_damaged_batch_is_named_and_can_be_stepped_over_with_one_dead_letter(
    make_world, scorer, broker
):
    world = make_world(partitions=1)
    one = scorer(world)
    until_scored(world, one)
    for _ in range(4):  # a batch of the topic each, or more
        world.send(30)
        world.flush()
    damage(broker, world, '"id": "60"')
    named = "the messages at offset .* of partition 0 are damaged: .*on_corrupt = "
    with pytest.raises(ConnectorError, match=named):
        until(lambda: turn(one))
    one.close()
    text = world.file.read_text()
    world.file.write_text(text.replace("[committee]", 'on_corrupt = "skip"\n[committee]'))
    world.config = load(world.file)
    other = scorer(world)
    until(lambda: (turn(other), world.read("dead_letters"))[-1], 60)
    other.close()
    third = scorer(world)
    world.send(10)
    world.flush()
    until(lambda: (turn(third), third.tasks and third.tasks[0].next >= world.sent)[-1], 60)
    (letter,) = [letter for found in world.read("dead_letters").values() for _, letter in found]
    assert letter["reason"] == "corrupt"
    start, end = map(int, re.search(r"offset (\d+) to (\d+) of", letter["detail"]).groups())
    assert start <= 60 <= end
    ids = [p["id"] for _, p in world.read("predictions")[0]]
    assert ids == [str(i) for i in range(world.sent) if not start <= i <= end]
    assert_progress_goes_on(world)
    run(world.config, until_idle=True)
    assert world.known()["dead_letters"] == 1


@pytest.mark.slow
def test_damage_of_what_scorers_share_ends_no_wait_that_would_be_in_vain(make_world, broker):
    world = make_world(partitions=1)
    with closing(build_scorer(world.config, StopToken())) as one:
        until_scored(world, one)
    name = models_topic(world.name)
    with closing(CompactedTopicReader(world.cluster, name)) as table:
        before = table.read_to_end()
    damage(broker, world, "manifest", topic="models")
    with closing(CompactedTopicReader(world.cluster, name)) as table:
        assert len(table.read_to_end()) < len(before)
        run(world.config, until_idle=True)
        assert [key for key, _ in table.read_to_end()][-1] == b"manifest", (
            "the learner writes it anew"
        )
    newest = '"sequence":' + str(world.read(scoring_log_topic(world.name))[0][-1][1]["sequence"])
    damage(broker, world, newest, topic="scoring-log")
    with (
        closing(CommittedReader(world.cluster)) as beside,
        pytest.raises(ConnectorError, match=r"are damaged: .* back from a copy") as told,
    ):
        until(lambda: beside_or_none(beside, world))
    assert not told.value.retriable


def beside_or_none(beside, world):
    try:
        return beside.newest_message(scoring_log_topic(world.name), 0)
    except UnavailableError:
        return None  # the broker is only just there
