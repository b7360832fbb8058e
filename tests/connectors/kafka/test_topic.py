"""Topics of a real broker: polling, committing, and errors."""

import time
from contextlib import closing
from itertools import count

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import NodeNotReadyError
from waiting import until

from streamboost.connectors.base import CommittedBatch
from streamboost.connectors.kafka.admin import JOURNAL, create_topics, missing_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.formats.decoding import FRAME, DecodedSource, Decoder
from streamboost.connectors.kafka.formats.registry import RegisteredSchema
from streamboost.connectors.kafka.sink import KafkaSink
from streamboost.connectors.kafka.topic import KafkaSource
from streamboost.connectors.kafka.transaction import KafkaTransaction
from streamboost.errors import ConnectorError, StateError, UnavailableError

pytestmark = pytest.mark.kafka

_numbers = count()


@pytest.fixture
def opened():
    """Closes what it is given at the end of the test."""
    things = []

    def keep(thing):
        things.append(thing)
        return thing

    yield keep
    for thing in things:
        thing.close()


@pytest.fixture(scope="module")
def cluster(kafka_servers):
    return KafkaCluster(kafka_servers)


@pytest.fixture
def name():
    """A name that no other test has used on the broker."""
    return f"kafka{next(_numbers)}.{time.time_ns()}"


@pytest.fixture
def topic(cluster, name):
    """A fresh topic of three partitions."""
    create_topics(cluster, {name: {"num_partitions": 3}})
    return name


@pytest.fixture
def begin(cluster, name, opened):
    """Return a function that makes the transaction of the one pipeline of the test."""
    create_topics(cluster, {f"{name}.journal": JOURNAL})
    return lambda **topics: opened(KafkaTransaction(cluster, name, topics))


def put(cluster, topic, payloads, partition=None):
    with closing(cluster.create_producer()) as producer:
        for payload in payloads:
            key = b"key" if payload is None else None  # a message has one of the two
            producer.send(topic, payload, key=key, partition=partition)
        producer.flush()


def drain(source, limit=100):
    messages = []
    while batch := source.poll(limit):
        messages += batch
    return messages


def payloads(cluster, topic):
    with closing(KafkaSource(cluster, topic)) as source:
        return [message.payload for message in drain(source)]


def test_messages_stand_by_partition_then_offset_and_positions_by_number(cluster, topic, opened):
    for partition in (2, 0, 1):
        put(cluster, topic, [b"%d" % partition] * 4, partition)
    source = opened(KafkaSource(cluster, topic))
    time_to_see_all = 50
    while source.lag() and time_to_see_all:
        time_to_see_all -= 1
        batch = source.poll(100)
        places = [(message.partition, message.offset) for message in batch]
        assert places == sorted(places)
    assert source.position() == {"0": 4, "1": 4, "2": 4}


def test_a_poll_is_full_wherever_an_answer_of_the_broker_ends(cluster, topic, opened, monkeypatch):
    put(cluster, topic, [b"%06d" % n + b"-" * 300 for n in range(3_000)], partition=1)
    monkeypatch.setattr("streamboost.connectors.kafka.topic._POLL_MS", 10_000)
    source = opened(KafkaSource(cluster, topic))
    polls = [source.poll(500) for _ in range(6)]
    assert [len(poll) for poll in polls] == [500] * 6
    assert [m.offset for poll in polls for m in poll] == list(range(3_000))
    assert source.poll(500) == []


def test_what_an_error_kept_from_being_returned_is_read_again(cluster, topic, opened, monkeypatch):
    put(cluster, topic, [b"%d" % n for n in range(30)], partition=1)
    source = opened(KafkaSource(cluster, topic))
    assert len(source.poll(10)) == 10

    def refuse(*args, **kwargs):
        monkeypatch.undo()
        raise NodeNotReadyError()

    monkeypatch.setattr(KafkaConsumer, "position", refuse)
    with pytest.raises(UnavailableError):
        source.poll(10)
    assert [message.offset for message in drain(source)] == list(range(10, 30))


def test_ranges_are_read_again_alike_whatever_partition_comes_first(cluster, topic, opened):
    for partition in range(3):
        put(cluster, topic, [b"%d.%d" % (partition, n) for n in range(20)], partition)
    source = opened(KafkaSource(cluster, topic))
    source.seek({"0": 0, "1": 0, "2": 0})
    for ranges in ({"2": (0, 7)}, {"0": (0, 20), "2": (7, 9)}, {"2": (9, 20)}):
        expected = [f"{p}.{n}".encode() for p, (a, b) in ranges.items() for n in range(a, b)]
        assert [m.payload for m in source.read_range(ranges, len(expected))] == expected
    assert source.position() == {"0": 20, "1": 0, "2": 20}
    assert {m.partition for m in drain(source)} == {"1"}


def test_a_partition_that_joins_is_read_from_its_beginning(cluster, topic, opened):
    often = KafkaCluster(cluster.servers, {"metadata_max_age_ms": 100})
    source = opened(KafkaSource(often, topic))
    put(cluster, topic, [b"old"])
    assert [m.payload for m in drain(source)] == [b"old"]
    with closing(cluster.create_admin_client()) as admin:
        admin.create_partitions({topic: 4})
        admin.wait_for_topics([topic])
    put(cluster, topic, [b"new"], partition=3)
    deadline, found = time.monotonic() + 30, []
    while not found and time.monotonic() < deadline:
        found = source.poll(10)
    assert [(m.payload, m.partition, m.offset) for m in found] == [(b"new", "3", 0)]


def test_a_topic_that_is_not_there_is_named(cluster, opened):
    with pytest.raises(ConnectorError, match=r"topic 'no\.such' at .* does not exist"):
        opened(KafkaSource(cluster, "no.such")).poll(1)
    assert missing_topics(cluster, ["no.such"]) == ["no.such"]


def test_topics_that_are_there_are_left_as_they_are(cluster, topic):
    create_topics(cluster, {topic: {"num_partitions": 7}, f"{topic}.new": {}})
    with closing(cluster.create_admin_client()) as admin:
        (found,) = admin.describe_topics([topic])
    assert len(found["partitions"]) == 3
    assert missing_topics(cluster, [f"{topic}.new"]) == []


@pytest.fixture
def truncated(cluster, topic):
    """The topic, whose partition 1 begins at offset 6 now."""
    put(cluster, topic, [b"x"] * 10, partition=1)
    with closing(cluster.create_admin_client()) as admin:
        admin.delete_records({TopicPartition(topic, 1): 6})
    return topic


def test_reading_begins_where_the_topic_begins(cluster, truncated, opened):
    source = opened(KafkaSource(cluster, truncated))
    assert source.position()["1"] == source.beginning_offsets()["1"] == 6
    assert [m.offset for m in drain(source)] == [6, 7, 8, 9]


def test_a_position_before_the_beginning_names_what_is_missing(cluster, truncated, opened):
    source = opened(KafkaSource(cluster, truncated))
    source.seek({"1": 2})
    with pytest.raises(ConnectorError, match="no longer holds offsets 2 to 5 of partition 1"):
        source.poll(5)


def test_what_is_gone_is_missed_while_reading_and_rereading(cluster, topic, opened):
    put(cluster, topic, [b"x"] * 10, partition=1)
    source = opened(KafkaSource(KafkaCluster(cluster.servers), topic))
    assert len(drain(source)) == 10
    with closing(cluster.create_admin_client()) as admin:
        admin.delete_records({TopicPartition(topic, 1): 6})
    with pytest.raises(ConnectorError, match="no longer holds offsets 2 to 5 of partition 1"):
        source.read_range({"1": (2, 8)}, 6)


def test_large_and_empty_messages_come_as_they_are(cluster, name, opened):
    topic = name
    create_topics(cluster, {topic: {"configs": {"max.message.bytes": "12000000"}}})
    put(cluster, topic, [b"x" * 10_000_000, None, b"\xff\xfe", b""], partition=0)
    large, tombstone, odd, empty = drain(opened(KafkaSource(cluster, topic, max_bytes=1000)))
    assert (len(large.payload), large.size) == (1001, 10_000_000)
    assert (tombstone.payload, tombstone.size) == (b"", 0)
    assert odd.payload == b"\xff\xfe"
    assert empty.payload == b""


def test_a_message_that_the_broker_does_not_take_is_no_reason_to_wait(cluster, topic, opened):
    sink = opened(KafkaSink(cluster, topic))
    sink.write([b"x" * 25_000_000])
    with pytest.raises(ConnectorError, match=r"max\.message\.bytes") as raised:
        sink.flush()
    assert not raised.value.retriable


def test_what_is_not_committed_is_not_read(cluster, topic, begin, opened):
    transaction, sink = begin(), opened(KafkaSink(cluster, topic))
    transaction.commit(1, [(sink, [b"first"])], {}, b"1")

    class Broken(list):
        def __iter__(self):
            yield b"half"
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        transaction.commit(2, [(sink, Broken())], {}, b"2")
    assert payloads(cluster, topic) == [b"first"]
    transaction.commit(2, [(sink, [b"second"])], {}, b"2")
    assert sorted(payloads(cluster, topic)) == [b"first", b"second"]
    assert list(transaction.read_journal()) == [(1, b"1"), (2, b"2")]


@pytest.mark.slow
def test_a_process_that_began_before_is_refused(cluster, topic, begin, opened):
    old, new, sink = begin(), begin(), opened(KafkaSink(cluster, topic))
    old.commit(1, [(sink, [b"old"])], {"records": {"0": 3}}, b"1")
    new.fence()
    assert new.last_committed_batch() == CommittedBatch(1, {"records": {"0": 3}})
    with pytest.raises(StateError, match="another process has taken this pipeline over") as raised:
        old.commit(2, [(sink, [b"zombie"])], {}, b"2")
    assert not raised.value.retriable
    new.commit(2, [(sink, [b"new"])], {}, b"2")
    with pytest.raises(StateError, match="another process has committed batch 2"):
        old.commit(2, [(sink, [b"zombie"])], {}, b"2")
    assert sorted(payloads(cluster, topic)) == [b"new", b"old"]


def test_a_run_after_another_one_goes_on_also_when_its_first_commit_fails(begin, monkeypatch):
    begin().commit(1, [], {}, b"1")
    second = begin()
    second.fence()
    with monkeypatch.context() as patch:
        patch.setattr(second, "_write_transaction", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            second.commit(2, [], {}, b"2")
    second.commit(2, [], {}, b"2")
    assert second.last_committed_batch().sequence == 2


def test_the_journal_is_read_from_any_batch_on(begin):
    transaction = begin()
    for sequence in range(1, 121):
        transaction.commit(sequence, [], {}, b"%d" % sequence)
    for after in (0, 1, 57, 119, 120):
        assert [s for s, _ in transaction.read_journal(after)] == list(range(after + 1, 121))


def test_the_group_of_the_pipeline_shows_its_positions(cluster, topic, name, begin):
    transaction = begin(records=topic)
    transaction.commit(1, [], {"records": {"0": 5, "2": 1}, "labels": {"0": 8}}, b"1")
    with closing(cluster.create_admin_client()) as admin:
        found = admin.list_group_offsets(f"streamboost.{name}")
    assert {p.partition: o.offset for p, o in _flat(found).items()} == {0: 5, 2: 1}


def _flat(found):
    return next(iter(found.values())) if isinstance(next(iter(found)), str) else found


def test_a_group_with_members_is_refused(cluster, topic, name, begin, opened):
    member = opened(
        KafkaConsumer(topic, bootstrap_servers=cluster.servers, group_id=f"streamboost.{name}")
    )
    transaction = begin()

    def refused():
        member.poll(timeout_ms=100)  # by which it joins
        try:
            transaction.fence()
        except ConnectorError as error:
            return "has 1 member" in str(error)
        return False

    until(refused)


def test_a_journal_of_several_partitions_is_refused(cluster, name, opened):
    create_topics(cluster, {f"{name}.journal": {"num_partitions": 2}})
    with pytest.raises(ConnectorError, match="has 2 partitions and must have one"):
        opened(KafkaTransaction(cluster, name)).last_committed_batch()


def test_what_is_no_entry_of_a_journal_is_named(cluster, name, begin):
    transaction = begin()
    put(cluster, f"{name}.journal", [b"hello"])
    with pytest.raises(StateError, match=r"offset 0 of topic .* is not an entry of a pipeline"):
        transaction.last_committed_batch()


class AwayOnce:
    """A registry that does not answer when it is asked for the first time."""

    url = "http://registry"

    def __init__(self):
        self.asked = 0

    def get_schema(self, id):
        self.asked += 1
        if self.asked == 1:
            raise UnavailableError("the registry is away")
        return RegisteredSchema("AVRO", '"long"')

    def close(self):
        pass


@pytest.mark.parametrize("again", [False, True], ids=["reading", "reading again"])
def test_while_a_registry_is_away_no_message_is_passed_over(cluster, topic, opened, again):
    pytest.importorskip("fastavro")
    put(cluster, topic, [FRAME.pack(0, 1) + b"\x02", FRAME.pack(0, 1) + b"\x04"], partition=1)
    source = opened(DecodedSource(Decoder(AwayOnce(), "avro"), cluster, topic, 1_000))

    def read():
        return source.read_range({"1": (0, 2)}, 2) if again else drain(source)

    before = source.position()
    with pytest.raises(UnavailableError):
        read()
    assert source.position() == before
    assert [(message.offset, message.payload) for message in read()] == [(0, b"1"), (1, b"2")]
    assert source.position() == before | {"1": 2}
