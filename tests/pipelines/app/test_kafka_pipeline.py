"""Pipelines over the topics of a real broker, from the command line and in this process."""

import json
import runpy
import shutil
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType
from waiting import until

from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.errors import ConnectorError, StateError
from streamboost.pipelines.app import check as checking
from streamboost.pipelines.app import connect
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load

pytestmark = pytest.mark.kafka

EXAMPLE = Path(__file__).parents[3] / "examples" / "kafka" / "segments.py"
PIPELINE = """
[pipeline]
name = "{name}"
batch_records = 20
[schema]
numeric = ["a", "b"]
[kafka]
bootstrap_servers = "{servers}"
{more}
[source]
connector = "kafka"
[committee]
n_estimators = 3
"""


@pytest.fixture
def make_file(tmp_path, kafka_servers):
    """Return a function that writes a pipeline file, and creates its topics."""

    def make(more="", create=True, servers=kafka_servers):
        file, name = tmp_path / "p.toml", f"pipeline.{time.time_ns()}"
        file.write_text(PIPELINE.format(name=name, servers=servers, more=more))
        if create:
            connect.create_topics(load(file))
        return file

    return make


def cluster_of(config):
    return KafkaCluster(config.sections.kafka.bootstrap_servers)


def put(config, section, messages):
    with closing(cluster_of(config).create_producer()) as producer:
        for message in messages:
            raw = message if message is None or isinstance(message, bytes) else json.dumps(message)
            raw = raw.encode() if isinstance(raw, str) else raw
            key = b"key" if raw is None else None  # a message has one of the two
            producer.send(getattr(config.sections, section).topic, raw, key=key)
        producer.flush()


def read(config, section):
    found = []
    with closing(
        KafkaSource(cluster_of(config), getattr(config.sections, section).topic)
    ) as source:
        while batch := source.poll(10_000):
            found += [json.loads(message.payload) for message in batch]
    return found


@pytest.mark.slow
def test_the_example_runs_from_init_to_a_graceful_stop(
    streamboost_command, tmp_path, kafka_servers
):
    streamboost_command("init", "--kafka", "p.toml")
    text = (tmp_path / "p.toml").read_text()
    name = f"segments{time.time_ns()}"
    text = text.replace("localhost:9092", kafka_servers).replace('"segments"', f'"{name}"')
    (tmp_path / "p.toml").write_text(text)
    out, _ = streamboost_command("check", "p.toml", code=1)
    assert f"has no topic {name}.records, {name}.labels" in out
    out, _ = streamboost_command("check", "--create-topics", "p.toml")
    assert f"created {name}.records" in out
    assert "exactly once: all outputs are topics of the cluster" in out
    process = streamboost_command.start("run", "p.toml")
    share = runpy.run_path(str(EXAMPLE))["play"](kafka_servers, name, 800)
    runpy.run_path(str(EXAMPLE))["play"](kafka_servers, name, 100)  # once more: other records
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "900 records in this run" in said
    assert " 0 dead letters" in said
    assert "Connection" not in said, "the client library is not heard"
    assert share > 0.6
    out, _ = streamboost_command("inspect", "p.toml")
    assert "continues after 900 offsets" in out


@pytest.mark.slow
def test_a_stopped_process_that_goes_on_finds_itself_replaced(
    streamboost_command, tmp_path, make_file, make_records
):
    file = make_file()
    config, records = load(file), make_records(400)[0]
    put(config, "source", records[:100])
    zombie = streamboost_command.start("run", "p.toml")
    until(lambda: len(read(config, "predictions")) == 100)
    zombie.send_signal(signal.SIGSTOP)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    (tmp_path / "copy" / "lock").unlink()
    text = file.read_text().replace("[schema]", 'state = "copy"\n[schema]')
    (tmp_path / "other.toml").write_text(text)
    streamboost_command("run", "--until-idle", "other.toml")
    put(config, "source", records[100:])
    zombie.send_signal(signal.SIGCONT)
    _, said = zombie.communicate(timeout=60)
    assert zombie.returncode == 1
    assert "another process has taken this pipeline over" in said
    streamboost_command("run", "--until-idle", "other.toml")
    assert sorted(p["id"] for p in read(config, "predictions")) == sorted(r["id"] for r in records)


@pytest.mark.slow
def test_a_broker_that_is_killed_under_a_pipeline_costs_nothing(
    streamboost_command, make_file, make_records, broker
):
    config, records = load(make_file(servers=broker.servers)), make_records(300)[0]
    put(config, "source", records[:150])
    process = streamboost_command.start("run", "p.toml")
    until(lambda: read(config, "predictions"))
    broker.kill()
    broker.start()
    put(config, "source", records[150:])
    until(lambda: len(read(config, "predictions")) == 300)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert sorted(p["id"] for p in read(config, "predictions")) == sorted(r["id"] for r in records)
    assert "bit for bit" in verify_replay(config)


def test_damaged_messages_become_dead_letters(make_file):
    config = load(make_file(create=False))
    large = {"configs": {"max.message.bytes": "12000000"}}
    create_topics(cluster_of(config), {config.sections.source.topic: large})
    connect.create_topics(config)
    put(
        config,
        "source",
        [{"id": "1", "a": 1, "b": 2}, None, b"\xff\xfe{", b'{"id": "2", "a": NaN}'],
    )
    put(config, "source", [{"a": 1}, {"id": "3", "a": "x", "b": 1}])
    put(config, "source", [{"id": "4", "a": 1, "b": 2, "pad": "x" * 10_000_000}])
    put(config, "labels", [None, b"{", {"id": "1", "label": "left"}])
    run(config, until_idle=True)
    assert [p["id"] for p in read(config, "predictions")] == ["1"]
    dead = sorted(read(config, "dead_letters"), key=lambda letter: letter["reason"])
    reasons = ["bad_json"] * 3 + ["empty"] * 2 + ["missing_id", "too_large", "wrong_type"]
    assert [letter["reason"] for letter in dead] == reasons
    assert dead[6]["size"] > 10_000_000
    assert len(dead[6]["payload"]) == 65_536


@pytest.mark.slow
def test_a_state_folder_alone_does_not_know_where_its_journal_is(make_file, make_records, tmp_path):
    config = load(make_file())
    put(config, "source", make_records(20)[0])
    run(config, until_idle=True)
    with pytest.raises(StateError, match="journal is in Kafka: give the pipeline file"):
        describe_pipeline(tmp_path / "state")


@pytest.mark.slow
def test_without_transactions_it_is_at_least_once_and_says_so(make_file, make_records):
    config = load(make_file("transactions = false"))
    assert f"{config.name}.journal" not in connect.refuse_missing_topics(config)
    said = checking.delivery_guarantee(config)
    assert said.startswith("at least once: predictions, requests and dead_letters are outside")
    records = make_records(90)[0]
    put(config, "source", records)
    run(config, until_idle=True)
    run(config, until_idle=True)
    assert [p["id"] for p in read(config, "predictions")] == [r["id"] for r in records]


def test_a_missing_topic_is_named_before_anything_is_read(make_file):
    config = load(make_file(create=False))
    with pytest.raises(ConnectorError, match=f"has no topic {config.name}.records") as raised:
        run(config, until_idle=True)
    assert not raised.value.retriable


def test_retention_fits_a_replay(make_file):
    config = load(make_file())
    names = [config.sections.source.topic, config.sections.labels.topic, f"{config.name}.journal"]
    with closing(cluster_of(config).create_admin_client()) as admin:
        asked = [ConfigResource(ConfigResourceType.TOPIC, name, ["retention.ms"]) for name in names]
        kept = admin.describe_configs(asked)
    month = str(30 * 24 * 3600 * 1000)
    found = [kept["topic"][name]["retention.ms"]["value"] for name in names]
    assert found == [month, month, "-1"]
