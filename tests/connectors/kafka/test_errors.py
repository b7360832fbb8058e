"""Errors of the Kafka client library: each is fatal or retried. Compression with every codec."""

import importlib
import itertools
import pkgutil
import time
import zlib
from collections import deque
from contextlib import closing

import kafka
import pytest
from kafka import codec
from kafka import errors as kafka_errors
from kafka.consumer.fetcher import Fetcher
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import calc_crc32c
from kafka.structs import TopicPartition

from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.cluster import KafkaCluster, translate_errors
from streamboost.connectors.kafka.consumer import poll_messages
from streamboost.connectors.kafka.errors import CREDENTIALS, END, FENCED, RETRIED, TOO_LARGE
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.errors import ConnectorError, StreamBoostError, UnavailableError

CODECS = ["gzip", "snappy", "lz4", "zstd"]


def errors_of_the_library():
    """Return every class of error that the installed client library has."""
    for module in pkgutil.walk_packages(kafka.__path__, "kafka."):
        if not module.name.startswith("kafka.benchmarks") and "__main__" not in module.name:
            importlib.import_module(module.name)
    found, left = set(), [kafka_errors.KafkaError]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        if kind.__module__.startswith("kafka.") and kind.__name__ != "UnrecognizedBrokerError":
            found.add(kind)
    return found


def test_every_error_of_the_library_is_decided_upon_once():
    everything = errors_of_the_library()
    assert kafka_errors.UnsupportedCodecError in everything
    undecided = everything - set(END) - RETRIED
    assert not undecided, "decide in connectors/kafka/errors.py: does waiting mend it?"
    assert not set(END) & RETRIED
    assert not {*FENCED, *CREDENTIALS, *TOO_LARGE} - set(END)


def test_what_waiting_cannot_mend_is_raised_as_an_error_that_ends_the_run():
    for kind in END:
        for error in (kind("of this"), kafka_errors.KafkaError(kind("of this"))):
            with (
                pytest.raises(StreamBoostError, match="topic 't': ") as raised,
                translate_errors("topic 't'"),
            ):
                raise error
            assert not raised.value.retriable, kind


def test_what_may_pass_is_raised_as_an_error_that_is_retried():
    for kind in RETRIED | {kafka_errors.for_code(12_345)}:
        with pytest.raises(UnavailableError, match="topic 't'"), translate_errors("topic 't'"):
            raise kind("of this")


@pytest.fixture(scope="module")
def compressed(request):
    """A cluster, and by codec a topic that holds ten messages in it."""
    cluster = KafkaCluster(request.getfixturevalue("kafka_servers"))
    topics = {codec: f"{codec}.{time.time_ns()}" for codec in CODECS}
    create_topics(cluster, {topic: {} for topic in topics.values()})
    for name, topic in topics.items():
        writes = KafkaCluster(cluster.servers, {"compression_type": name})
        with closing(writes.create_producer()) as producer:
            for n in range(10):
                producer.send(topic, b"%s %d " % (name.encode(), n) * 20_000)
            producer.flush()
    return cluster, topics


@pytest.mark.kafka
def test_a_topic_is_read_and_read_again_whatever_its_compression(compressed):
    cluster, topics = compressed
    for name, topic in topics.items():
        with closing(KafkaSource(cluster, topic)) as source:
            found = source.poll(10)
            again = source.read_range({"0": (0, 10)}, 10)
        expected = [b"%s %d " % (name.encode(), n) * 20_000 for n in range(10)]
        assert [message.payload for message in found] == expected
        assert again == found


@pytest.mark.kafka
def test_a_compression_without_its_library_ends_the_run_and_is_named(compressed, monkeypatch):
    cluster, topics = compressed
    monkeypatch.setattr(codec, "zstd", None)
    with closing(KafkaSource(cluster, topics["zstd"])) as source:
        for read in (lambda: source.poll(10), lambda: source.read_range({"0": (0, 10)}, 10)):
            with pytest.raises(ConnectorError, match=r"zstd.*pip install") as raised:
                read()
            assert not raised.value.retriable


class OneFetch:
    """A consumer whose poll decodes one batch, as if a broker had sent the batch."""

    def __init__(self, batch):
        at = TopicPartition("t", 0)
        self.records = Fetcher.PartitionRecords(40, at, MemoryRecords(batch))

    def poll(self, timeout_ms, max_records):
        return self.records.take(max_records)


def batch_of(codec_number, spoil):
    """Return a batch at offset 40, its records changed by `spoil`, with a checksum that fits."""
    builder = DefaultRecordBatchBuilder(2, codec_number, False, -1, -1, -1, 1_000_000)
    for n in range(5):
        builder.append(n, 0, None, b"%d" % n * 100, [])
    batch = bytearray(builder.build())
    head = DefaultRecordBatch.HEADER_STRUCT.size
    body = spoil(bytes(batch[head:]))
    batch[head:] = body
    batch[:8] = (40).to_bytes(8, "big")
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    return with_checksum(batch)


def with_checksum(batch):
    place = DefaultRecordBatch.CRC_OFFSET
    return bytes(batch[:place] + calc_crc32c(batch[place + 4 :]).to_bytes(4, "big")) + bytes(
        batch[place + 4 :]
    )


SPOILT = {
    "another byte": lambda body: b"\xff" + body[1:],
    "cut off": lambda body: body[: len(body) // 2],
    "empty": lambda body: b"",
    "zeros": lambda body: bytes(len(body)),
    "continued": lambda body: body + b"more",
}


@pytest.mark.parametrize(
    ("number", "how"),
    # After its frame, lz4 reads no further: all records of the batch are given.
    sorted({*itertools.product(range(5), SPOILT)} - {(CODECS.index("lz4") + 1, "continued")}),
)
def test_a_batch_that_cannot_be_decoded_is_damage_whatever_its_codec_raises(number, how):
    consumer = OneFetch(batch_of(number, SPOILT[how]))
    with pytest.raises(kafka_errors.CorruptRecordError, match="at offset 40 cannot be decoded"):
        deque(iter(lambda: poll_messages(consumer, 0, 10), []))


def test_a_batch_that_is_whole_is_given():
    for number in range(5):
        assert len(poll_messages(OneFetch(batch_of(number, bytes)), 0, 10)) == 5


def test_an_error_that_no_batch_causes_stays_what_it_is():
    class Broken:
        def poll(self, timeout_ms, max_records):
            raise zlib.error("elsewhere")

    with pytest.raises(zlib.error):
        poll_messages(Broken(), 0, 10)


@pytest.mark.slow
@pytest.mark.kafka
def test_a_batch_on_a_disk_that_cannot_be_decoded_is_named_or_stepped_over_as_one(broker):
    name = f"undecodable.{time.time_ns()}"
    cluster = KafkaCluster(broker.servers, {"compression_type": "lz4"})
    create_topics(cluster, {name: {}})
    with closing(cluster.create_producer(linger_ms=1_000)) as producer:
        for start in (0, 10, 20):
            for n in range(start, start + 10):
                producer.send(name, b"%d" % n)
            producer.flush()
    broker.stop()
    (log,) = broker.folder.glob(f"data/{name}-0/*.log")
    batches = [bytearray(batch._buffer) for batch in MemoryRecords(log.read_bytes())]
    batches[1][DefaultRecordBatch.HEADER_STRUCT.size] ^= 255
    batches[1] = with_checksum(batches[1])
    log.write_bytes(b"".join(batches))
    broker.start()
    with closing(KafkaSource(cluster, name, on_corrupt="skip")) as source:
        found = [message for _ in range(3) for message in source.poll(100)]
        again = source.read_range({"0": (0, 30)}, 21)
    assert [message.offset for message in found] == [*range(11), *range(20, 30)]
    assert "offset 10 to 19 of partition 0 are damaged: they cannot be decoded" in found[10].damage
    assert again == found
    with (
        closing(KafkaSource(cluster, name)) as source,
        pytest.raises(ConnectorError, match=r"offset 10 to 19 .*on_corrupt") as raised,
    ):
        deque(iter(lambda: source.poll(100), []))
    assert not raised.value.retriable
