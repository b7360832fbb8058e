"""Broker errors that need an operator: a deleted topic, a message over the size limit."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from streamboost.connectors.base import Message
from streamboost.connectors.kafka import producer as kafka_sending
from streamboost.connectors.kafka.admin import JOURNAL, create_topics, missing_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.sink import KafkaSink
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.connectors.kafka.transaction import KafkaTransaction
from streamboost.connectors.messages.outgoing import DeadLetter, Label
from streamboost.errors import ConnectorError, UnavailableError
from tests.waiting import until

pytestmark = pytest.mark.kafka

SMALL = {"configs": {"max.message.bytes": "2000"}}


@pytest.fixture
def cluster(kafka_servers):
    return KafkaCluster(kafka_servers)


@pytest.fixture(autouse=True)
def _asks_soon(monkeypatch):
    """Do not wait for seconds before it is asked whether a topic is still there."""
    monkeypatch.setattr(kafka_sending, "_LOOK", 0.3)


@pytest.fixture
def name(cluster):
    """A pipeline's name, its journal and topic created."""
    name = f"refused.{time.time_ns()}"
    create_topics(cluster, {f"{name}.journal": JOURNAL, name: SMALL})
    return name


def delete(cluster, topic):
    with closing(cluster.create_admin_client()) as admin:
        admin.delete_topics([topic])
    until(lambda: missing_topics(cluster, [topic]))


def payloads(cluster, topic):
    with closing(KafkaSource(cluster, topic)) as source:
        return [message.payload for message in source.poll(1000)]


def label(id):
    return Label(id, "grass").encode()


@pytest.mark.parametrize("suffix", ["", ".journal"])
@pytest.mark.parametrize("options", [{}, {"metadata_max_age_ms": 100}], ids=["known", "looked-up"])
@pytest.mark.quick_once
def test_a_topic_deleted_between_two_commits_is_named(cluster, name, suffix, options):
    chosen = KafkaCluster(cluster.servers, options)
    sink = KafkaSink(chosen, name)
    with closing(KafkaTransaction(chosen, name)) as transaction:
        transaction.commit(1, [(sink, [b"1"])], {}, b"entry")
        delete(cluster, name + suffix)
        with pytest.raises(ConnectorError, match=f"topic '{name}{suffix}' at .*deleted") as told:
            transaction.commit(2, [(sink, [b"2"])], {}, b"entry")
        assert not told.value.retriable
        assert "streamboost check --create-topics" in str(told.value)


@pytest.mark.slow
def test_a_topic_created_again_is_gone_on_with(cluster, name):
    sink = KafkaSink(cluster, name)
    with closing(KafkaTransaction(cluster, name)) as transaction:
        transaction.commit(1, [(sink, [b"1"])], {}, b"entry")
        delete(cluster, name)
        with pytest.raises(ConnectorError, match="deleted"):
            transaction.commit(2, [(sink, [b"2"])], {}, b"entry")
    create_topics(cluster, {name: {}})
    with closing(KafkaTransaction(cluster, name)) as transaction:
        transaction.commit(2, [(sink, [b"2"])], {}, b"entry")
    assert payloads(cluster, name) == [b"2"]


def test_a_deleted_topic_is_named_where_no_transaction_writes(cluster, name):
    with closing(KafkaSink(cluster, name)) as sink:
        sink.write([b"1"])
        sink.flush()
        delete(cluster, name)
        sink.write([b"2"])
        with pytest.raises(ConnectorError, match=f"topic '{name}' at .*deleted") as told:
            sink.flush()
        assert not told.value.retriable


@pytest.mark.slow
def test_a_message_over_the_topic_s_limit_is_named_by_its_record(cluster, name):
    large = [label(str(n)) for n in range(300)]
    large[200] = label("the large one" + "x" * 5000)
    sink = KafkaSink(cluster, name)
    with closing(KafkaTransaction(cluster, name)) as transaction:
        with pytest.raises(ConnectorError, match=f"topic '{name}' at .*record 'the large") as told:
            transaction.commit(1, [(sink, large)], {}, b"entry")
        said = str(told.value)
        assert "max.message.bytes" in said
        assert len(said) < 500
        assert not told.value.retriable
        del large[200]
        transaction.commit(1, [(sink, large)], {}, b"entry")
    assert sorted(payloads(cluster, name)) == sorted(large)


def test_it_is_named_too_where_no_transaction_writes(cluster, name):
    with closing(KafkaSink(cluster, name)) as sink:
        sink.write([label("7"), label("8" * 5000), label("9")])
        with pytest.raises(ConnectorError, match=f"topic '{name}' at .*record '8888"):
            sink.flush()


def test_what_fits_one_by_one_is_written_where_all_at_once_does_not(cluster, name):
    many = [label(str(n)) for n in range(300)]
    with closing(KafkaSink(cluster, name)) as sink:
        sink.write(many)
        sink.flush()
    assert payloads(cluster, name) == many


def test_a_dead_letter_over_the_limit_is_named_by_where_its_message_came_from(cluster, name):
    message = Message(b"x" * 5000, "3", 12, 5000)
    letter = DeadLetter.from_message(message, "bad_json", "damaged", source="records").encode()
    sink = KafkaSink(cluster, name)
    with (
        closing(KafkaTransaction(cluster, name)) as transaction,
        pytest.raises(ConnectorError, match="dead letter of records, partition 3, offset 12"),
    ):
        transaction.commit(1, [(sink, [letter])], {}, b"entry")


def test_what_this_client_refuses_to_send_is_named_as_well(cluster, name):
    narrow = KafkaCluster(cluster.servers, {"max_request_size": 1000})
    sink = KafkaSink(narrow, name)
    with (
        closing(KafkaTransaction(narrow, name)) as transaction,
        pytest.raises(ConnectorError, match=r"record '8888.*max_request_size"),
    ):
        transaction.commit(1, [(sink, [label("8" * 1500)])], {}, b"entry")


def test_an_entry_over_the_limit_of_the_journal_is_named(cluster, name):
    sink = KafkaSink(cluster, name)
    with (
        closing(KafkaTransaction(cluster, name)) as transaction,
        pytest.raises(ConnectorError, match=f"topic '{name}.journal' at .*entry of batch 1"),
    ):
        transaction.commit(1, [(sink, [b"1"])], {}, bytes(21_000_000))


@pytest.mark.slow
def test_a_broker_that_goes_away_and_comes_back_is_not_taken_for_a_deleted_topic(
    broker, monkeypatch
):
    monkeypatch.setattr(kafka_sending, "_LOOK", 0.05)
    monkeypatch.setattr(kafka_sending, "_PATIENCE", 5.0)
    cluster = KafkaCluster(broker.servers, {"bootstrap_timeout_ms": 500})
    name = f"away.{time.time_ns()}"
    create_topics(cluster, {f"{name}.journal": JOURNAL, name: {}})
    writes = [(KafkaSink(cluster, name), [b"1"])]
    with closing(KafkaTransaction(cluster, name)) as transaction:
        transaction.commit(1, writes, {}, b"entry")
        broker.kill()
        with pytest.raises(UnavailableError):
            transaction.commit(2, writes, {}, b"entry")
        with ThreadPoolExecutor() as pool:
            started = pool.submit(broker.start)

            def commits():
                with suppress(UnavailableError):
                    transaction.commit(2, writes, {}, b"entry")
                    return True

            until(commits)
            started.result()
        assert transaction.last_committed_batch().sequence == 2
