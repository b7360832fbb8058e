"""Contract tests of every source, sink and transaction: see `connectors.base`."""

import gzip
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamboost.connectors.base import CommittedBatch, Message, Sink, Source, Transaction
from streamboost.connectors.files.csv import CsvSource
from streamboost.connectors.files.json_lines import JsonLinesSource
from streamboost.connectors.files.json_lines_sink import JsonLinesSink
from streamboost.connectors.files.parquet import ParquetSource
from streamboost.connectors.kafka.admin import JOURNAL, create_topics, missing_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.formats.decoding import FRAME, DecodedSource, Decoder
from streamboost.connectors.kafka.formats.registry import Registry
from streamboost.connectors.kafka.sink import KafkaSink
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.connectors.kafka.transaction import KafkaTransaction
from streamboost.connectors.memory import MemoryLog, MemorySink, MemorySource, MemoryTransaction
from streamboost.connectors.oracle.oracle import AnswersOracle, DelayedAnswerIds
from streamboost.connectors.oracle.table import OracleLabels
from streamboost.connectors.river import RiverOracle, RiverSource
from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import ConnectorError, StateError

PAYLOADS = [b'{"id": %d}' % number for number in range(7)]
NO_LINE_BREAK = st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b""))


def memory_source(folder: Path) -> Source:
    log = MemoryLog(["a", "b"])
    log.append(PAYLOADS[:4], "b")
    log.append(PAYLOADS[4:], "a")
    return MemorySource(log)


def file_source(folder: Path) -> Source:
    path = folder / "records.jsonl"
    path.write_bytes(b"\n".join([*PAYLOADS, b""]))
    return JsonLinesSource(path)


def unfinished_file_source(folder: Path) -> Source:
    path = folder / "records.jsonl"
    path.write_bytes(b"\r\n".join(PAYLOADS))
    return JsonLinesSource(path)


def compressed_file_source(folder: Path) -> Source:
    path = folder / "records.jsonl.gz"
    path.write_bytes(gzip.compress(b"\r\n".join(PAYLOADS)))
    return JsonLinesSource(path)


def compressed_csv_source(folder: Path) -> Source:
    path = folder / "records.csv.gz"
    path.write_bytes(gzip.compress(b"id,a\n" + b"".join(b"%d,1.5\n" % n for n in range(7))))
    return CsvSource(path)


def csv_source(folder: Path) -> Source:
    path = folder / "records.csv"
    path.write_bytes(b"id,a\r\n" + b"\r\n".join(b"%d,1.5" % n for n in range(7)))
    return CsvSource(path)


def parquet_source(folder: Path) -> Source:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table({"id": range(7)})
    path = folder / "records.parquet"
    if not path.exists():
        parquet.write_table(table, path, row_group_size=3)
    return ParquetSource(path)


def sqlite_source(folder: Path) -> Source:
    path = folder / "log.db"
    if not path.exists():
        sink = SqliteSink(path, "records")
        sink.write(PAYLOADS)
        sink.flush()
        sink.close()
    return SqliteSource(path, "records")


def river_source(folder: Path) -> Source:
    source = RiverSource("Phishing")
    source.seek({"0": 1243})
    return source


def river_oracle(folder: Path) -> Source:
    requests = MemoryLog()
    requests.append([b'{"id": "%d"}' % record for record in (5, 0, 3, 1, 12, 7, 8)])
    progress = RiverSource("ImageSegments")
    progress.seek({"0": 100})
    return RiverOracle("ImageSegments", MemorySource(requests), 20, progress)


def answers_oracle(folder: Path) -> Source:
    path = folder / "answers.jsonl"
    path.write_bytes(b"".join(b'{"id": %d, "label": "sky"}\n' % n for n in range(7)))
    asked, predictions = MemoryLog(), MemoryLog()
    asked.append([b'{"id": "%d"}' % record for record in (5, 0, 99, 3, 1, 98, 2, 4, 6)])
    predictions.append([b'{"id": "%d"}' % record for record in range(9)])
    young = DelayedAnswerIds(MemorySource(predictions), records=2)
    return AnswersOracle(OracleLabels(path), MemorySource(asked), young)


def kafka_source(folder: Path, servers: str) -> Source:
    cluster, topic = KafkaCluster(servers), f"contract.{hash(folder)}"
    if missing_topics(cluster, [topic]):
        create_topics(cluster, {topic: {"num_partitions": 1}})
        with closing(KafkaSink(cluster, topic)) as sink:
            sink.write(PAYLOADS)
            sink.flush()
    return KafkaSource(cluster, topic)


def framed_source(folder: Path, servers: str) -> Source:
    cluster, topic = KafkaCluster(servers), f"framed.{hash(folder)}"
    if missing_topics(cluster, [topic]):
        create_topics(cluster, {topic: {"num_partitions": 1}})
        with closing(KafkaSink(cluster, topic)) as sink:
            sink.write([FRAME.pack(0, 1) + payload for payload in PAYLOADS])
            sink.flush()
    decoder = Decoder(Registry("http://nobody"), "json-schema")
    return DecodedSource(decoder, cluster, topic, 1_000_000)


SOURCES = [
    memory_source,
    file_source,
    unfinished_file_source,
    compressed_file_source,
    csv_source,
    compressed_csv_source,
    parquet_source,
    sqlite_source,
    river_source,
    river_oracle,
    answers_oracle,
]
KAFKA_SOURCES = (kafka_source, framed_source)


@pytest.fixture(
    params=[*SOURCES, *(pytest.param(one, marks=pytest.mark.kafka) for one in KAFKA_SOURCES)],
    ids=lambda make: make.__name__,
)
def make(request, tmp_path):
    made: list[Source] = []
    arguments = [tmp_path]
    if request.param in KAFKA_SOURCES:
        arguments.append(request.getfixturevalue("kafka_servers"))

    def make_one() -> Source:
        made.append(request.param(*arguments))
        return made[-1]

    yield make_one
    for source in made:
        source.close()


def drain(source: Source, limit: int = 2) -> list[Message]:
    messages: list[Message] = []
    while batch := source.poll(limit):
        assert len(batch) <= limit
        messages += batch
    return messages


def test_polling_gives_every_message_once_by_partition_then_offset(make):
    messages = drain(make())
    places = [(message.partition, message.offset) for message in messages]
    assert len(places) == len(PAYLOADS)
    assert places == sorted(set(places))
    assert messages == make().poll(1000)


def test_whole_messages_tell_their_own_size(make):
    assert all(message.size == len(message.payload) for message in drain(make()))


def test_position_is_that_of_the_next_message(make):
    source, first = make(), make().poll(1)[0]
    assert source.position()[first.partition] <= first.offset
    for message in make().poll(1000):
        assert source.position()[message.partition] <= message.offset
        assert source.poll(1) == [message]
        assert source.position()[message.partition] > message.offset


@pytest.mark.parametrize("count", range(len(PAYLOADS) + 1))
def test_a_fresh_source_goes_on_from_a_position(make, count):
    source, fresh = make(), make()
    source.poll(count)
    fresh.seek(source.position())
    assert fresh.position() == source.position()
    assert drain(fresh) == drain(source)


def test_seeking_back_gives_the_same_messages(make):
    source = make()
    start = source.position()
    messages = drain(source)
    source.seek(start)
    assert drain(source, limit=3) == messages


def test_an_empty_position_is_the_beginning(make):
    source = make()
    source.seek({})
    beginning = source.position()
    source.poll(3)
    source.seek({})
    assert source.position() == beginning
    assert set(beginning.values()) == {0}


def test_polling_at_the_end_gives_nothing_and_stays_there(make):
    source = make()
    drain(source)
    end = source.position()
    assert source.poll(5) == []
    assert source.position() == end


def test_a_limit_of_nothing_moves_nothing(make):
    source = make()
    start = source.position()
    assert source.poll(0) == []
    assert source.position() == start


def test_a_position_cannot_be_changed_from_outside(make):
    source = make()
    start = dict(source.position())
    source.position().clear()
    assert source.position() == start


def test_a_partition_that_is_not_there_is_refused_by_name(make):
    with pytest.raises(ConnectorError, match="elsewhere"):
        make().seek({"elsewhere": 3})


def test_a_position_beyond_the_end_is_not_taken_for_this_source(make):
    source = make()
    source.seek(dict.fromkeys(source.position(), 10**6))
    with pytest.raises(ConnectorError):
        source.poll(1)


def test_a_source_that_has_rested_goes_on_where_it_was(make):
    source = make()
    found = source.poll(2)
    source.release_resources()
    source.release_resources()
    assert found + drain(source) == drain(make())


def test_closing_a_source_again_does_nothing(make):
    source = make()
    source.poll(1)
    source.close()
    source.close()


@pytest.mark.parametrize("make", SOURCES, indirect=True)  # a broker is too slow for as many walks
@settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(moves=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 10)), max_size=12))
def test_any_walk_reads_what_one_straight_reading_reads(make, moves):
    source = make()
    places, messages = [source.position()], []
    while batch := source.poll(1):
        messages += batch
        places.append(source.position())
    at = len(messages)
    for limit, target in moves:
        if target < len(places):
            source.seek(places[target])
            at = target
        batch = source.poll(limit)
        assert batch == messages[at : at + limit]
        at += len(batch)
        assert source.position() == places[at]
    source.close()


@dataclass
class Place:
    """A sink, and a source that reads the messages of the sink."""

    sink: type[Sink]
    source: type[Source]
    arguments: tuple[Any, ...]

    def open(self) -> Sink:
        return self.sink(*self.arguments)

    def read(self) -> list[bytes]:
        source = self.source(*self.arguments)
        payloads = [message.payload for message in drain(source)]
        source.close()
        return payloads


def kafka_place(servers: str, topic: str) -> Place:
    cluster = KafkaCluster(servers)
    create_topics(cluster, {topic: {"num_partitions": 1}})
    return Place(KafkaSink, KafkaSource, (cluster, topic))


KAFKA = pytest.param("kafka", marks=pytest.mark.kafka)


@pytest.fixture(params=["memory", "files", "sqlite", KAFKA])
def place(request, tmp_path):
    if request.param == "kafka":
        return kafka_place(request.getfixturevalue("kafka_servers"), f"place.{hash(tmp_path)}")
    return {
        "memory": Place(MemorySink, MemorySource, (MemoryLog(),)),
        "files": Place(JsonLinesSink, JsonLinesSource, (tmp_path / "deep" / "out.jsonl",)),
        "sqlite": Place(SqliteSink, SqliteSource, (tmp_path / "deep" / "log.db", "out")),
    }[request.param]


def test_what_is_flushed_can_be_read_in_order(place):
    sink = place.open()
    sink.write(PAYLOADS[:2])
    sink.write(PAYLOADS[2:5])
    sink.flush()
    sink.write(PAYLOADS[5:])
    sink.flush()
    assert place.read() == PAYLOADS
    sink.close()


def test_a_sink_opened_again_appends(place):
    for payload in PAYLOADS:
        sink = place.open()
        sink.write([payload])
        sink.flush()
        sink.close()
    assert place.read() == PAYLOADS


def test_flushing_twice_writes_once(place):
    sink = place.open()
    sink.write(PAYLOADS)
    sink.flush()
    sink.write([])
    sink.flush()
    assert place.read() == PAYLOADS
    sink.close()


def test_closing_a_sink_again_does_nothing(place):
    sink = place.open()
    sink.write(PAYLOADS)
    sink.flush()
    sink.close()
    sink.close()


def test_closing_drops_what_was_not_flushed(place):
    sink = place.open()
    sink.write(PAYLOADS[:1])
    sink.flush()
    sink.write(PAYLOADS[1:])
    sink.close()
    sink.flush()
    assert place.read() == PAYLOADS[:1]
    sink.close()


@settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(payloads=st.lists(NO_LINE_BREAK, min_size=1, max_size=5))
def test_any_bytes_come_back_as_they_were(place, payloads):
    sink = place.open()
    sink.write(payloads)
    sink.flush()
    sink.close()
    assert place.read()[-len(payloads) :] == payloads


@pytest.fixture(params=["memory", "sqlite", KAFKA])
def ledger(request, tmp_path):
    """A transaction, a place it binds and one it does not."""
    outside = Place(JsonLinesSink, JsonLinesSource, (tmp_path / "outside.jsonl",))
    transaction: Transaction
    if request.param == "memory":
        transaction = MemoryTransaction()
        inside = Place(MemorySink, MemorySource, (MemoryLog(),))
    elif request.param == "kafka":
        servers, name = request.getfixturevalue("kafka_servers"), f"ledger{hash(tmp_path)}"
        inside = kafka_place(servers, f"{name}.out")
        create_topics(KafkaCluster(servers), {f"{name}.journal": JOURNAL})
        transaction = KafkaTransaction(KafkaCluster(servers), name)
    else:
        transaction = SqliteTransaction(tmp_path / "log.db", "demo")
        inside = Place(SqliteSink, SqliteSource, (tmp_path / "log.db", "out"))
    yield transaction, inside, outside
    transaction.close()


def test_nothing_is_committed_before_the_first_batch(ledger):
    transaction, _, _ = ledger
    assert transaction.last_committed_batch() is None
    assert list(transaction.read_journal()) == []


def test_a_commit_writes_bound_sinks_positions_and_journal(ledger):
    transaction, inside, _ = ledger
    sink = inside.open()
    transaction.commit(1, [(sink, PAYLOADS[:2])], {"records": {"a": 2, "b": 3}}, b"one")
    transaction.commit(2, [(sink, PAYLOADS[2:])], {"labels": {"0": 1}}, b"two")
    assert inside.read() == PAYLOADS
    assert transaction.last_committed_batch() == CommittedBatch(
        2, {"records": {"a": 2, "b": 3}, "labels": {"0": 1}}
    )
    assert list(transaction.read_journal()) == [(1, b"one"), (2, b"two")]
    assert list(transaction.read_journal(after=1)) == [(2, b"two")]
    sink.close()


def test_sinks_that_are_not_bound_are_written_and_flushed(ledger):
    transaction, inside, outside = ledger
    bound, free = inside.open(), outside.open()
    assert transaction.enlists(bound)
    assert not transaction.enlists(free)
    transaction.commit(1, [(free, PAYLOADS), (bound, PAYLOADS[:1])], {}, b"one")
    assert outside.read() == PAYLOADS
    assert inside.read() == PAYLOADS[:1]
    bound.close()
    free.close()


@pytest.mark.parametrize("sequence", [0, 1, 3, 7])
def test_only_the_sequence_after_the_last_is_committed(ledger, sequence):
    transaction, inside, _ = ledger
    transaction.commit(1, [], {"records": {"0": 1}}, b"one")
    sink = inside.open()
    with pytest.raises(StateError, match=f"batch {sequence} .*batch 1"):
        transaction.commit(sequence, [(sink, PAYLOADS)], {"records": {"0": 9}}, b"other")
    assert inside.read() == []
    assert transaction.last_committed_batch() == CommittedBatch(1, {"records": {"0": 1}})
    assert list(transaction.read_journal()) == [(1, b"one")]
    sink.close()


class Broken(list[bytes]):
    """Payloads that fail when the last of them is read."""

    def __iter__(self):
        yield from list.__iter__(self)
        raise RuntimeError("the last payload cannot be made")


@pytest.mark.quick_once
def test_a_commit_that_fails_in_the_middle_leaves_nothing(ledger):
    transaction, inside, _ = ledger
    sink = inside.open()
    transaction.commit(1, [(sink, PAYLOADS[:1])], {"records": {"0": 1}}, b"one")
    with pytest.raises(RuntimeError):
        transaction.commit(
            2, [(sink, PAYLOADS), (sink, Broken(PAYLOADS))], {"records": {"0": 9}}, b"two"
        )
    assert inside.read() == PAYLOADS[:1]
    assert transaction.last_committed_batch() == CommittedBatch(1, {"records": {"0": 1}})
    transaction.commit(2, [(sink, PAYLOADS[1:])], {"records": {"0": 7}}, b"two again")
    assert inside.read() == PAYLOADS
    assert list(transaction.read_journal()) == [(1, b"one"), (2, b"two again")]
    sink.close()


@pytest.mark.quick_once
def test_a_batch_tried_again_is_written_once_to_what_is_not_bound(ledger):
    transaction, inside, outside = ledger
    bound, free = inside.open(), outside.open()
    for _ in range(3):
        with pytest.raises(RuntimeError):
            transaction.commit(1, [(free, PAYLOADS), (bound, Broken(PAYLOADS))], {}, b"one")
    transaction.commit(1, [(free, PAYLOADS), (bound, PAYLOADS)], {}, b"one")
    assert (outside.read(), inside.read()) == (PAYLOADS, PAYLOADS)
    transaction.commit(2, [(free, PAYLOADS[:1]), (bound, [])], {}, b"two")
    assert outside.read() == [*PAYLOADS, *PAYLOADS[:1]], "the next batch is another"
    bound.close()
    free.close()


def test_of_several_sinks_those_that_have_a_batch_do_not_get_it_again(ledger, tmp_path):
    transaction, _, outside = ledger
    in_the_way = tmp_path / "folder"
    in_the_way.touch()
    other = Place(JsonLinesSink, JsonLinesSource, (in_the_way / "other.jsonl",))
    first, second = outside.open(), other.open()
    writes = [(first, PAYLOADS[:3]), (second, PAYLOADS[3:]), (first, PAYLOADS[3:])]
    for _ in range(2):
        with pytest.raises(ConnectorError, match="cannot write"):
            transaction.commit(1, writes, {}, b"one")
    in_the_way.unlink()
    transaction.commit(1, writes, {}, b"one")
    assert (outside.read(), other.read()) == (PAYLOADS, PAYLOADS[3:])
    first.close()
    second.close()
