"""Operations on a real broker under a pipeline: retention, new partitions, a wrong password."""

import math
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource

from streamboost.connectors.kafka.admin import create_topics as create_kafka_topics
from streamboost.connectors.kafka.admin import retention_ms
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.journal import journal_topic
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.connectors.memory import MemoryLog, MemorySource
from streamboost.errors import GapError, StateError
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.connect import (
    create_topics,
    describe_topics,
    refuse_missing_topics,
)
from streamboost.pipelines.app.inspect import describe_pipeline, format_description
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load
from streamboost.pipelines.runner.backlog import EVERY, PATIENCE, BacklogMonitor
from streamboost.pipelines.runner.batch_reader import BatchReader
from streamboost.pipelines.shutdown import StopToken
from tests.broker.broker import USER
from tests.broker.proxy import END_TXN
from tests.pipelines.operated import PIPELINE, checkpoints, delete, grow, predicted, put
from tests.pipelines.watching import committing
from tests.waiting import until

pytestmark = pytest.mark.kafka


@pytest.mark.slow
def test_retention_is_warned_of_before_it_overtakes_the_oldest_checkpoint(
    made, make_records, monkeypatch, caplog
):
    monkeypatch.setattr("streamboost.pipelines.runner.backlog.EVERY", 0.0)
    made, stop = made(), StopToken()
    put(made, make_records(100)[0])
    run(made.config, until_idle=True)
    put(made, make_records(60, start=100)[0])

    def warnings():
        told = [r for r in caplog.records if r.levelname == "WARNING"]
        return [r.message for r in told if r.name.startswith("streamboost")]

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, made.config, stop=stop)
        try:
            until(lambda: len(predicted(made)) == 160)
            assert warnings() == []
            delete(made, f"{made.name}.records", 95)
            until(warnings)
        finally:
            stop.request_stop()
        running.result(60)
    assert warnings() == [
        "records: retention is too short for a restart: partition 0 begins at offset 95, and the "
        "oldest checkpoint needs offset 100. Keep messages for longer, or take checkpoints more "
        "often ([pipeline] checkpoint_every)"
    ]


@pytest.mark.slow
def test_inspect_and_check_beside_it_never_make_a_run_fail_that_starts(made, make_records):
    made, ended = made(), threading.Event()
    put(made, make_records(20)[0])
    run(made.config, until_idle=True)

    def look():
        while not ended.is_set():
            describe_pipeline(made.config.state, made.config)
            list(check_pipeline(made.config))

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            for n in range(20, 100, 20):
                put(made, make_records(20, start=n)[0])
                run(made.config, until_idle=True)
        finally:
            ended.set()
        looking.result(60)
    assert predicted(made) == [str(i) for i in range(100)]


@pytest.mark.slow
def test_inspect_shows_what_the_state_tells_where_no_broker_answers(
    made, broker, make_records, streamboost_command
):
    made = made("bootstrap_timeout_ms = 2000")
    _, said = streamboost_command("inspect", "p.toml", code=1)
    assert "has not run yet: start `streamboost run`" in said
    put(made, make_records(40)[0])
    run(made.config, until_idle=True)
    broker.stop()
    try:
        out, _ = streamboost_command("inspect", "p.toml")
        found = describe_pipeline(made.config.state, made.config)
    finally:
        broker.start()
    first, second, *rest = out.splitlines()
    assert first == f"pipeline {made.name}: not running, at least 2 batches committed"
    assert second.startswith("not known        newer batches, and the lag: ")
    assert f"{broker.servers} cannot be reached: KafkaConnectionError: 111 ECONNREFUSED" in second
    assert "records          continues after 40 offsets" in rest
    assert "    records                 40  records predicted" in rest
    assert (found["sequence"], found["lag"]) == (2, {})
    assert found["unknown"].keys() == {"committed", "lag"}
    assert describe_pipeline(made.config.state, made.config)["unknown"] == {}


@pytest.mark.slow
def test_inspect_says_that_a_broker_which_is_away_keeps_what_is_to_be_read(
    made, broker, make_records
):
    made = made("transactions = false\nbootstrap_timeout_ms = 500")
    put(made, make_records(40)[0])
    run(made.config, until_idle=True)
    broker.stop()
    try:
        said = format_description(describe_pipeline(made.config.state, made.config)).splitlines()
    finally:
        broker.start()
    assert said[0] == f"pipeline {made.name}: not running, 2 batches committed"
    assert said[1].startswith(f"not known        the lag: {broker.servers} cannot")


@pytest.mark.slow
def test_a_broker_that_is_slow_to_answer_holds_neither_the_loop_nor_its_end(
    made, broker, make_records
):
    made = made()
    put(made, make_records(20)[0])
    with closing(broker.proxy()) as proxy:
        slow = KafkaCluster(f"127.0.0.1:{broker.proxied_port}")
        intake = BatchReader(
            MemorySource(MemoryLog()), MemorySource(MemoryLog()), most_records=10, most_labels=10
        )
        watch = BacklogMonitor(
            intake, lambda: {"records": KafkaSource(slow, f"{made.name}.records")}
        )
        intake.poll()
        watch.update(None)
        until(lambda: watch.update(None) or watch.lag)
        assert watch.lag == {"records": 20}
        proxy.delay = 5.0
        watch._answered = -math.inf
        started = time.monotonic()
        for _ in range(10):
            intake.poll()
            watch.update(None)
        watch.close()
        assert time.monotonic() - started < 5.0
    until(lambda: "streamboost-lag" not in {thread.name for thread in threading.enumerate()})


@pytest.mark.slow
def test_a_topic_truncated_below_the_checkpoint_stops_a_restart_with_what_is_missing(
    made, make_records
):
    made = made()
    grow(made, make_records, 120)
    delete(made, f"{made.name}.records", 75)
    with pytest.raises(GapError, match="no longer holds offsets 60 to 74 of partition 0") as told:
        run(made.config, until_idle=True)
    assert 'on_data_loss = "continue"' in str(told.value)
    made.file.write_text(
        made.file.read_text().replace("[schema]", 'on_data_loss = "continue"\n[schema]')
    )
    put(made, make_records(20, start=120)[0])
    made.config = load(made.file)
    run(made.config, until_idle=True)
    assert checkpoints(made).newest()[1]["lost_batches"] == 3
    assert predicted(made) == [str(i) for i in range(140)], "nothing is predicted twice"


@pytest.mark.slow
def test_of_the_journal_only_what_follows_the_oldest_checkpoint_is_needed(made, make_records):
    made = made()
    put(made, make_records(240)[0])
    assert run(made.config, until_idle=True) == 12
    journal = journal_topic(made.name)
    delete(made, journal, 2 * 5)  # an entry and the mark that ends its transaction take two
    checkpoints(made).remove_after(9)
    put(made, make_records(20, start=240)[0])
    assert run(made.config, until_idle=True) == 13
    assert "batches 7 to 13 replayed: bit for bit" in verify_replay(made.config)
    shutil.rmtree(checkpoints(made).folder)
    with pytest.raises(GapError, match="the journal lacks batches 1 to 5"):
        run(made.config, until_idle=True)


def test_a_journal_that_was_emptied_is_never_an_empty_model(made, make_records):
    made = made()
    put(made, make_records(40)[0])
    run(made.config, until_idle=True)
    delete(made, journal_topic(made.name), -1)
    with pytest.raises(StateError, match="checkpoint of batch 2, but no batch is committed"):
        run(made.config, until_idle=True)


@pytest.mark.slow
def test_on_a_full_disk_it_serves_on_and_takes_checkpoints_again_when_there_is_room(
    made, make_records, small_disk, fill, caplog
):
    made = made()
    made.file.write_text(made.file.read_text().replace("[schema]", 'state = "small"\n[schema]'))
    made.config = load(made.file)
    put(made, make_records(240)[0])

    def watch(effects):
        if effects.sequence == 4:
            fill(small_disk)
        elif effects.sequence == 8:
            assert checkpoints(made).sequences == [3]
            (small_disk / "filler").unlink()

    run(made.config, until_idle=True, observers=[committing(watch)])
    assert "no checkpoint of batch 6: " in caplog.text
    assert "No space left on device" in caplog.text
    assert checkpoints(made).sequences == [12, 9, 3]
    assert len(predicted(made)) == 240
    assert "bit for bit" in verify_replay(made.config)


@pytest.mark.slow
def test_what_an_open_transaction_holds_back_is_an_alarm_until_it_ends(made, caplog):
    made, clock = made(), SimpleNamespace(now=0.0)
    topic = f"{made.name}.records"
    with (
        closing(made.cluster.create_producer(transactional_id=made.name)) as producer,
        closing(KafkaSource(made.cluster, topic)) as source,
    ):
        intake = BatchReader(source, MemorySource(MemoryLog()), most_records=10, most_labels=10)
        asked = {"records": KafkaSource(made.cluster, topic)}
        watch = BacklogMonitor(intake, lambda: asked, lambda: clock.now)
        producer.init_transactions()
        producer.begin_transaction()

        def turn():
            found, clock.now = intake.poll(), clock.now + EVERY
            before = watch.lag
            until(lambda: watch.update(None) or watch.lag is not before)
            return found

        deadline = time.monotonic() + 30
        while not watch.stalled and time.monotonic() < deadline:
            producer.send(topic, b"{}").get(10)
            assert turn() is None
        assert watch.stalled == {"records"}
        assert "Check for producers with open transactions" in caplog.text
        producer.commit_transaction()
        while watch.stalled and time.monotonic() < deadline:
            turn()
        assert watch.stalled == set()
        watch.close()


@pytest.mark.slow
def test_a_partition_that_gives_nothing_of_what_it_has_is_opened_anew(made, make_records, caplog):
    made, clock = made(partitions=3), SimpleNamespace(now=0.0)
    topic = f"{made.name}.records"
    with (
        closing(KafkaSource(made.cluster, topic)) as source,
        closing(MemorySource(MemoryLog())) as labels,
    ):
        intake = BatchReader(source, labels, most_records=10, most_labels=10)
        watch = BacklogMonitor(
            intake, lambda: {"records": KafkaSource(made.cluster, topic)}, lambda: clock.now
        )
        put(made, make_records(3)[0], partition=1)
        until(intake.poll)
        source._consumer.pause(TopicPartition(topic, 1))  # as the client library forgets one
        put(made, make_records(3, start=3)[0], partition=1)

        def look():
            found, clock.now = intake.poll(), clock.now + EVERY
            watch.update(None)
            return found

        found = until(look)
        assert [message.partition for message in found.records] == ["1"] * 3
        assert "records: partition 1 has messages from offset 3 to 6" in caplog.text
        assert clock.now >= PATIENCE
        watch.close()


@pytest.mark.slow
def test_partitions_that_join_are_read_and_replayed(made, make_records):
    made = made()
    records = make_records(90)[0]
    put(made, records[:40])
    first = run(made.config, until_idle=True)
    with closing(made.cluster.create_admin_client()) as admin:
        admin.create_partitions({f"{made.name}.records": 3})
        admin.wait_for_topics([f"{made.name}.records"])
    put(made, records[40:70], partition=2)
    put(made, records[70:], partition=0)
    run(made.config, until_idle=True)
    checkpoints(made).remove_after(first)
    run(made.config, until_idle=True)
    assert sorted(predicted(made), key=int) == [r["id"] for r in records]
    assert "bit for bit" in verify_replay(made.config)


@pytest.mark.slow
def test_a_topic_that_is_deleted_under_a_pipeline_ends_it_with_its_name(
    made, make_records, streamboost_command
):
    made = made()
    put(made, make_records(20)[0])
    process = streamboost_command.start("run", "p.toml")
    deadline = time.monotonic() + 60
    while not predicted(made):
        assert time.monotonic() < deadline
    with closing(made.cluster.create_admin_client()) as admin:
        admin.delete_topics([f"{made.name}.records"])
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"topic '{made.name}.records' at" in said
    assert "does not exist: correct the name, or create it" in said


@pytest.mark.slow
@pytest.mark.parametrize("role", ["predictions", "dead_letters", "journal"])
def test_a_topic_that_is_deleted_where_a_pipeline_writes_ends_it_with_its_name(
    made, make_records, streamboost_command, role
):
    made, records = made(), make_records(40)[0]
    put(made, [*records[:20], {"no": "id"}])
    process = streamboost_command.start("run", "p.toml")
    until(lambda: len(predicted(made)) == 20)
    with closing(made.cluster.create_admin_client()) as admin:
        admin.delete_topics([f"{made.name}.{role}"])
    put(made, [*records[20:], {"no": "id"}])
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"topic '{made.name}.{role}' at" in said
    assert "was deleted, with all that it held" in said
    assert "no answer" not in said
    _, said = streamboost_command("run", "p.toml", code=1)
    assert f"has no topic {made.name}.{role}: correct the name, or create" in said
    if role != "journal":
        streamboost_command("check", "--create-topics", "p.toml")
        streamboost_command("run", "--until-idle", "p.toml")
        expected = records[20:] if role == "predictions" else records
        assert predicted(made) == [record["id"] for record in expected]


@pytest.mark.slow
def test_a_prediction_over_its_topic_s_limit_ends_it_with_topic_and_record(
    made, make_records, streamboost_command
):
    made, records = made(), make_records(60)[0]
    limit = {"max.message.bytes": "900"}
    with closing(made.cluster.create_admin_client()) as admin:
        admin.alter_configs([ConfigResource("TOPIC", f"{made.name}.predictions", limit)])
    records[50]["id"] = "the long one" + "." * 980
    put(made, records)
    said = "".join(streamboost_command("run", "p.toml", code=1))
    assert f"topic '{made.name}.predictions' at" in said
    assert "record 'the long one" in said
    assert "raise the topic's max.message.bytes" in said


def test_a_wrong_password_ends_it_and_is_not_shown(broker, streamboost_command):
    sasl = f"""
bootstrap_timeout_ms = 1000
security_protocol = "SASL_PLAINTEXT"
sasl_mechanism = "SCRAM-SHA-256"
sasl_plain_username = "{USER}"
sasl_plain_password = "${{PASSWORD}}"
"""
    streamboost_command.environment["PASSWORD"] = "hunter2"
    text = PIPELINE.format(name="guarded", servers=broker.guarded, more=sasl)
    (streamboost_command.folder / "p.toml").write_text(text)
    said = "".join(streamboost_command("run", "p.toml", code=1))
    assert "these credentials are refused" in said
    assert "hunter2" not in said


@pytest.mark.slow
def test_a_wrong_certificate_file_ends_it_with_the_reason(broker, streamboost_command):
    file = streamboost_command.folder / "p.toml"

    def write(more):
        more = f'bootstrap_timeout_ms = 1000\nsecurity_protocol = "SSL"\n{more}'
        file.write_text(PIPELINE.format(name="tls", servers=broker.encrypted, more=more))

    write('ssl_cafile = "no.pem"')
    said = "".join(streamboost_command("run", "p.toml", code=2))
    assert f"'ssl_cafile' names {file.with_name('no.pem')}" in said
    assert "No such file" in said
    write("")  # those the system trusts, of whom the broker is none
    said = "".join(streamboost_command("run", "p.toml", code=1))
    assert "certificate verify failed" in said


@pytest.mark.slow
def test_a_certificate_is_looked_for_beside_the_pipeline_file(broker, tmp_path, monkeypatch):
    folder, elsewhere = tmp_path / "pipeline", tmp_path / "elsewhere"
    (folder / "keys").mkdir(parents=True)
    elsewhere.mkdir()
    shutil.copy(broker.certificate, folder / "keys" / "ca.pem")
    more = 'security_protocol = "SSL"\nssl_cafile = "keys/ca.pem"'
    name = f"operated.{time.time_ns()}"
    (folder / "p.toml").write_text(PIPELINE.format(name=name, servers=broker.encrypted, more=more))
    monkeypatch.chdir(elsewhere)
    config = load("../pipeline/p.toml")
    assert f"{name}.records" in create_topics(config)
    assert refuse_missing_topics(config) == "6 topics are there"


@pytest.mark.slow
def test_outputs_are_kept_as_long_as_the_records_and_check_names_those_that_are_not(
    broker, tmp_path
):
    name = f"operated.{time.time_ns()}"
    cluster = KafkaCluster(broker.servers)
    file = tmp_path / "p.toml"
    file.write_text(PIPELINE.format(name=name, servers=broker.servers, more=""))
    config = load(file)
    records, predictions = f"{name}.records", f"{name}.predictions"
    create_kafka_topics(cluster, {records: {"configs": {"retention.ms": "-1"}}})
    assert predictions in create_topics(config)
    assert retention_ms(cluster, [records, predictions, "absent"]) == {records: -1, predictions: -1}
    assert describe_topics(config) == "6 topics are there"
    short = ConfigResource("TOPIC", predictions, {"retention.ms": "60000"})
    with closing(cluster.create_admin_client()) as admin:
        admin.alter_configs([short])
    warning = f"{predictions}: messages have the timestamp of their record"
    until(lambda: warning in describe_topics(config))
    assert "set retention.ms = -1" in describe_topics(config)


@pytest.mark.slow
def test_a_network_that_cuts_delays_and_loses_commit_replies_costs_nothing(
    made, broker, make_records, streamboost_command
):
    with closing(broker.proxy()) as proxy:
        made = made(reached=f"127.0.0.1:{broker.proxied_port}")
        process = streamboost_command.start("run", "p.toml")
        records, lost, deadline = make_records(120)[0], 0, time.monotonic() + 120
        for start in range(0, 120, 40):
            proxy.delay = 0.02 * (start % 80 == 0)
            proxy.lose_answer(END_TXN)
            put(made, records[start : start + 40])
            while len(predicted(made)) < start + 40:
                assert time.monotonic() < deadline, "it took too long"
            lost += proxy.lost.is_set()
            proxy.cut()
        assert lost == 3
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert predicted(made) == [r["id"] for r in records]
        assert "bit for bit" in verify_replay(made.config)
