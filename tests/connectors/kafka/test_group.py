"""Consumer group members: atomic commits, and no commit of partitions that were revoked."""

import threading
import time
from contextlib import ExitStack, closing
from types import SimpleNamespace

import pytest
from kafka import TopicPartition

from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.connectors.kafka.group.assignment import RebalanceListener, TopicMessage
from streamboost.connectors.kafka.group.committed_reader import CommittedReader
from streamboost.connectors.kafka.group.member import KafkaMember, PartitionsRevokedError
from streamboost.errors import DeletedError
from tests.waiting import until

pytestmark = pytest.mark.kafka


@pytest.fixture
def place(kafka_servers):
    """Two topics of two partitions, the first with ten messages in each."""
    name, cluster = f"group.{time.time_ns()}", KafkaCluster(kafka_servers)
    two = {"num_partitions": 2}
    found = SimpleNamespace(cluster=cluster, name=name, read=f"{name}.in", written=f"{name}.out")
    create_topics(cluster, {found.read: two, found.written: two})
    with closing(cluster.create_producer()) as producer:
        for n in range(20):
            producer.send(found.read, b"%d" % n, partition=n % 2)
        producer.flush()
    return found


@pytest.fixture
def make_member(place):
    with ExitStack() as stack:
        yield lambda: stack.enter_context(
            closing(KafkaMember(place.cluster, place.name, place.read, session_timeout_ms=6_000))
        )


def joined(member, partitions):
    """Have a member poll until these are its own, sending each to its beginning."""

    def has_come():
        member.initialize_producer()
        polled = member.poll(100)
        for partition in polled.ownership.changed & polled.ownership.partitions:
            member.seek(partition, None)
        return polled.ownership.partitions == set(partitions)

    until(has_come, 60)


def polled_by(member):
    return until(lambda: (found := member.poll(100)).messages and found, 30)


def written(place):
    with closing(CommittedReader(place.cluster)) as beside:
        return [beside.newest_message(place.written, partition) for partition in (0, 1)]


@pytest.mark.slow
def test_what_a_member_makes_of_messages_is_written_with_where_it_goes_on(place, make_member):
    member = make_member()
    joined(member, [0, 1])
    polled = polled_by(member)
    ends = {p: found[-1].offset + 1 for p, found in polled.messages.items()}
    member.commit([TopicMessage(place.written, p, b"x") for p in ends], ends, polled)
    assert {p for p, one in enumerate(written(place)) if one} == set(ends)
    with closing(place.cluster.create_consumer(group_id=place.name)) as reader:
        for partition, end in ends.items():
            assert reader.committed(TopicPartition(place.read, partition)) == end


def test_nothing_is_written_of_partitions_that_went_away_meanwhile(place, make_member):
    member = make_member()
    joined(member, [0, 1])
    polled = polled_by(member)
    # As the client's thread does when the group rebalances between a poll and the commit.
    member._listener.on_partitions_revoked([TopicPartition(place.read, 1)])
    with pytest.raises(PartitionsRevokedError, match="went to other members"):
        member.commit([TopicMessage(place.written, 0, b"x")], {0: 5}, polled)
    assert written(place) == [None, None]
    assert member.poll(100).ownership.partitions == {0}, "though the client still reads both"


@pytest.mark.slow
def test_a_transaction_whose_partitions_go_away_before_its_commit_is_undone(
    place, make_member, monkeypatch
):
    member = make_member()
    joined(member, [0, 1])
    polled = polled_by(member)
    send = member._producer.send_offsets_to_transaction

    def send_and_lose(*given):
        send(*given)
        member._listener.on_partitions_lost([TopicPartition(place.read, 0)])

    monkeypatch.setattr(member._producer, "send_offsets_to_transaction", send_and_lose)
    with pytest.raises(PartitionsRevokedError):
        member.commit([TopicMessage(place.written, 0, b"x")], {0: 5}, polled)
    assert written(place) == [None, None]


@pytest.mark.slow
def test_a_member_of_an_earlier_generation_is_refused_by_the_broker(place, make_member):
    one, other = make_member(), make_member()
    joined(one, [0, 1])
    polled = polled_by(one)

    def has_come():
        other.initialize_producer()
        return one.poll(1).ownership.partitions and other.poll(1).ownership.partitions

    until(has_come, 60)
    one._raise_if_partitions_reassigned = lambda polled: None  # as if it had not noticed
    with pytest.raises(Exception, match=r"metadata|generation|member"):
        one.commit([TopicMessage(place.written, 0, b"x")], {0: 5}, polled)
    assert written(place) == [None, None]


def test_the_newest_message_is_looked_for_once_no_transaction_is_open(place):
    with closing(place.cluster.create_producer(transactional_id=place.name)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(place.written, b"late", partition=0).get(timeout=10)
        ended = threading.Timer(0.5, producer.commit_transaction)
        ended.start()
        with closing(CommittedReader(place.cluster)) as beside:
            assert beside.newest_message(place.written, 0).payload == b"late"
        ended.join()


def test_a_place_that_is_gone_is_named(place, make_member):
    member = make_member()
    joined(member, [0, 1])
    with closing(place.cluster.create_admin_client()) as admin:
        admin.delete_records({TopicPartition(place.read, 0): 4})
    with pytest.raises(DeletedError, match="no longer holds offsets 2 to 3 of partition 0"):
        member.seek(0, 2)
    assert member.beginning_offset(0) == 4


def test_a_partition_is_owned_from_hearing_of_it_until_it_is_heard_to_go():
    listener, of = RebalanceListener(), lambda *numbers: [TopicPartition("t", n) for n in numbers]
    listener.on_partitions_assigned(of(0, 1))
    assert listener.pop_assignment_changes(all_changed=False) == ({0, 1}, {0, 1}, 1)
    assert listener.pop_assignment_changes(all_changed=False) == ({0, 1}, set(), 1)
    assert listener.pop_assignment_changes(all_changed=True) == ({0, 1}, {0, 1}, 1)
    listener.on_partitions_revoked(of(0, 1))
    assert listener.pop_assignment_changes(all_changed=False) == (set(), {0, 1}, 2)
    listener.on_partitions_assigned(of())
    assert listener.n_rebalances == 3, "an assignment of nothing is one, too"
