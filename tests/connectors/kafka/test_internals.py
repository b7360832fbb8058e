"""Undocumented behaviour of kafka-python that `connectors/kafka` needs holds in this release."""

import ast
import itertools
import socket
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors
from kafka.consumer.fetcher import Fetcher
from kafka.record.memory_records import MemoryRecords
from kafka.structs import TopicPartition
from waiting import until as wait_until

from streamboost.connectors.kafka import internals
from tests.connectors.kafka.test_errors import batch_of

OF_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
"""Documented attributes of named tuples."""

FOLDER = Path(internals.__file__).parent
NOWHERE = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 300}

_numbers = itertools.count()


def private_uses(path):
    """Return the private attributes that a file reads from other objects than its own."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr[1] != "_":
            owner = node.value
            is_own = isinstance(owner, ast.Name) and owner.id in {"self", "cls"}
            if not is_own and node.attr not in OF_TUPLES:
                yield f"{path.name}: {ast.unparse(node)}"


def test_private_attributes_are_used_in_this_module_alone():
    others = [path for path in FOLDER.rglob("*.py") if path.name != "internals.py"]
    assert len(others) > 10
    assert [use for path in others for use in private_uses(path)] == []
    assert len(list(private_uses(FOLDER / "internals.py"))) >= 5


def test_every_use_has_a_test_here():
    tested = Path(__file__).read_text()
    uses = [name for name in internals.__all__ if name != "Failures"]
    assert [name for name in uses if f"internals.{name}(" not in tested] == []


@pytest.fixture
def topic(kafka_servers):
    name = f"internals{next(_numbers)}.{time.time_ns()}"
    with KafkaAdminClient(bootstrap_servers=kafka_servers) as admin:
        admin.create_topics({name: {"num_partitions": 1}})
        admin.wait_for_topics([name])
    return name


@pytest.mark.parametrize("kind", [KafkaConsumer, KafkaProducer, KafkaAdminClient])
def test_a_client_that_does_not_start_leaves_no_thread(kind):
    made, before = [], set(threading.enumerate())

    def make(kafka_client, **settings):
        def kept(**options):
            made.append(kafka_client(**options))
            return made[-1]

        return kind(kafka_client=kept, **settings)

    with pytest.raises(kafka_errors.KafkaTimeoutError):
        internals.start_client(make, NOWHERE)
    assert len(made) == 1
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


def failures(**settings):
    """Return the reasons that are reported while a client fails to start."""
    found = []
    with (
        internals.report_connection_errors((kafka_errors.KafkaError, OSError), found.append),
        pytest.raises(kafka_errors.KafkaTimeoutError),
    ):
        internals.start_client(KafkaAdminClient, NOWHERE | settings)
    return found


def test_the_log_of_the_library_holds_the_reason_of_a_failed_connection():
    reasons = failures()
    assert any("ECONNREFUSED" in str(reason) for reason in reasons)
    assert not any(internals.is_timeout(reason) for reason in reasons)


def test_a_connection_that_got_no_answer_ran_out_of_time():
    with socket.socket() as server, socket.socket() as waiting:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting.connect(server.getsockname())  # the queue is full: no later one connects
        reasons = failures(bootstrap_servers=f"127.0.0.1:{server.getsockname()[1]}")
    assert any(internals.is_timeout(reason) for reason in reasons)


@pytest.mark.kafka
@pytest.mark.parametrize("transactional", [True, False])
def test_partition_sender_sends_as_the_producer_does(kafka_servers, topic, transactional):
    settings = {"bootstrap_servers": kafka_servers, "max_request_size": 1_000}
    partition = TopicPartition(topic, 0)
    # Not an old time: the broker would delete the messages as expired.
    arguments = {"key": b"k", "headers": [("trace", b"7")], "timestamp_ms": time.time_ns() // 10**6}
    if transactional:
        settings["transactional_id"] = topic
    with closing(KafkaProducer(**settings)) as producer:
        if transactional:
            producer.init_transactions()
            producer.begin_transaction()
        producer.send(topic, b"first", partition=0, **arguments)
        send = internals.partition_sender(producer, partition)
        futures = [send(b"%d" % i, **arguments) for i in range(200)]
        with pytest.raises(kafka_errors.MessageSizeTooLargeError):
            send(b"x" * 1_000)
        if transactional:
            producer.commit_transaction()
        assert [future.get(10).offset for future in futures] == list(range(1, 201))
    consumer = KafkaConsumer(
        bootstrap_servers=kafka_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    with closing(consumer):
        consumer.assign([partition])
        found = []
        wait_until(lambda: found.extend(consumer.poll(100).get(partition, [])) or len(found) >= 201)
    assert [one.value for one in found] == [b"first", *(b"%d" % i for i in range(200))]
    assert len({(one.key, tuple(one.headers), one.timestamp) for one in found}) == 1


@pytest.mark.kafka
def test_partition_sender_adds_the_partition_to_the_transaction(kafka_servers, topic):
    settings = {"bootstrap_servers": kafka_servers, "transactional_id": topic}
    with closing(KafkaProducer(**settings)) as producer:
        producer.init_transactions()
        partition = TopicPartition(topic, 0)
        with pytest.raises(ValueError, match="no partition 7"):
            internals.partition_sender(producer, TopicPartition(topic, 7))
        with pytest.raises(kafka_errors.IllegalStateError):  # no transaction was begun
            internals.partition_sender(producer, partition)
        producer.begin_transaction()
        internals.partition_sender(producer, partition)(b"dropped")
        producer.abort_transaction()
        producer.begin_transaction()
        internals.partition_sender(producer, partition)(b"kept")
        producer.commit_transaction()
    with closing(
        KafkaConsumer(
            bootstrap_servers=kafka_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
    ) as consumer:
        consumer.assign([partition])
        found = {}
        wait_until(lambda: found.update(consumer.poll(100)) or found)
    assert [one.value for one in found[partition]] == [b"kept"]


@pytest.mark.kafka
def test_later_calls_of_a_fenced_producer_name_the_error(kafka_servers, topic):
    settings = {"bootstrap_servers": kafka_servers, "transactional_id": topic}
    with closing(KafkaProducer(**settings)) as first, closing(KafkaProducer(**settings)) as second:
        first.init_transactions()
        second.init_transactions()

        def commit():
            first.begin_transaction()
            first.send(topic, b"1")
            first.commit_transaction()

        for _ in range(2):
            with pytest.raises(kafka_errors.KafkaError) as raised:
                commit()
    fencing = (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError)
    assert any(internals.mentions_error_class(raised.value, kind) for kind in fencing)


@pytest.mark.kafka
def test_a_producer_that_is_closed_by_force_ends_its_thread_and_does_not_flush(
    kafka_servers, monkeypatch
):
    producer = KafkaProducer(bootstrap_servers=kafka_servers)
    internals.force_close_producer(producer)
    producer._sender.join(30)
    assert not producer._sender.is_alive()
    flushed = []
    monkeypatch.setattr(producer, "flush", flushed.append)
    producer.close(timeout=1)
    assert not flushed


@pytest.mark.kafka
def test_a_consumer_that_is_to_join_again_gets_another_generation(kafka_servers, topic):
    settings = {"bootstrap_servers": kafka_servers, "group_id": topic, "metadata_max_age_ms": 100}
    with closing(KafkaConsumer(**settings)) as consumer:
        # Metadata that came during the join would stop it, see `internals.request_group_rejoin`.
        assert consumer.partitions_for_topic(topic)
        consumer.subscribe([topic])
        until(consumer, lambda: consumer.assignment())
        before = consumer.group_metadata().generation_id
        internals.request_group_rejoin(consumer)
        until(consumer, lambda: consumer.group_metadata().generation_id > before)


def until(consumer, condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        consumer.poll(timeout_ms=100)


@pytest.mark.kafka
def test_records_that_were_not_decoded_are_dropped(kafka_servers, topic):
    at = TopicPartition(topic, 0)
    with KafkaProducer(bootstrap_servers=kafka_servers) as producer:
        for n in range(3):
            producer.send(topic, b"%d" % n)
    settings = {"bootstrap_servers": kafka_servers, "auto_offset_reset": "earliest"}
    settings["max_poll_records"] = 1
    with closing(KafkaConsumer(**settings)) as consumer:
        consumer.assign([at])
        until(consumer, lambda: consumer._fetcher._next_partition_records)
        held = consumer._fetcher._next_partition_records
        internals.drop_undecodable_records(consumer)
        assert not held


@pytest.mark.kafka
def test_consumers_and_producers_have_the_id_of_a_topic(kafka_servers, topic):
    with closing(KafkaConsumer(bootstrap_servers=kafka_servers)) as consumer:
        consumer.partitions_for_topic(topic)
        known = internals.topic_id(consumer, topic)
    with closing(KafkaProducer(bootstrap_servers=kafka_servers)) as producer:
        producer.partitions_for(topic)
        assert internals.topic_id(producer, topic) == known
    assert known


def decoded(batch):
    return Fetcher.PartitionRecords(40, TopicPartition("t", 0), MemoryRecords(batch)).take(10)


def test_the_traceback_of_a_batch_that_is_not_decompressed_holds_the_batch():
    with pytest.raises(Exception) as raised:  # noqa: PT011
        decoded(batch_of(1, lambda body: b"\xff" + body[1:]))
    assert internals.failed_batch_offset(raised.value) == 40
    assert internals.failed_batch_offset(ValueError()) is None


def test_the_error_of_a_failed_checksum_names_the_offset():
    batch = batch_of(0, bytes)
    with pytest.raises(kafka_errors.CorruptRecordError) as raised:
        decoded(batch[:-1] + bytes([batch[-1] ^ 1]))
    assert internals.offset_in_error(raised.value) == 40
    assert internals.offset_in_error(kafka_errors.CorruptRecordError("no place")) is None
