"""Apache Kafka: a member of a consumer group, which commits what it makes of what it reads.

The partitions of a topic are shared out by the group. What is made of a batch of messages and where
its partitions go on are one transaction (KIP-447), which the broker refuses to whoever is no member
any more, or a member of an earlier generation. Five rules keep that whole:

- The generation is taken right after a poll, since the client joins the group in a thread of its
  own, and a commit is given up where it, the member or what is assigned has changed by then.
- Nothing is committed without a generation: the broker would not look at it.
- A partition is ours from when we hear that it is assigned until we hear that it is revoked or
  lost, and no longer: a client that joins a new generation has the old assignment for a while, and
  the broker looks at the generation alone. Who holds anything on a partition's behalf begins anew
  from what is committed after each of these. The client's own thread only notes them.
- A poll waits, as a member joins only while it polls.
- The broker undoes a transaction that stays open for ten seconds, and waiting for a commit ends
  before.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors
from kafka.structs import (
    ConsumerGroupMetadata,
    MemberState,
    OffsetAndMetadata,
    TopicPartition,
)

from streamboost.connectors.kafka.cluster import MOMENT_MS, KafkaCluster, discard, told
from streamboost.connectors.kafka.group.ownership import Listener, Polled, Write
from streamboost.connectors.kafka.internals import drop_undecodable, rejoin, topic_id
from streamboost.connectors.kafka.reading import (
    Damage,
    as_message,
    check_place,
    fetched,
    find_damage,
    numbers_of,
    places_of,
    span_of,
)
from streamboost.connectors.kafka.sending import CREATE_AGAIN, Dispatch, options_of
from streamboost.errors import ConnectorError, StateError, UnavailableError

__all__ = ["KafkaMember", "MovedError"]

POLL_MS = 200
"""With 10 ms, a member that joins never gets a partition."""

SESSION_MS = 10_000
"""Silence after which a member's partitions are others'."""

TRANSACTION_MS = 10_000

_METADATA_MS = 5_000
"""How soon partitions are seen that have joined."""

_PATIENCE = 8.0
"""Seconds that a commit may take: less than the transaction."""

_NOWHERE = (kafka_errors.NoOffsetForPartitionError, kafka_errors.OffsetOutOfRangeError)
"""How a poll fails that does not know where a partition goes on."""


class MovedError(UnavailableError):
    """Partitions went to other members before a commit, and nothing of it was written."""


class KafkaMember:
    """Reads the partitions of a topic that a group gives it, and commits what was made of them.

    Parameters
    ----------
    cluster : KafkaCluster
    group : the consumer group's name, with which the transactions' names begin
    topic : what is read
    max_bytes : of a longer payload, so much and one byte are held
    on_corrupt : "stop" where messages do not match their checksum, or "skip" them, with a word
    settings : further options of the consumer
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        group: str,
        topic: str,
        max_bytes: int = 1_000_000,
        on_corrupt: str = "stop",
        **settings: Any,
    ) -> None:
        self.name = f"{group}.{token_hex(8)}"
        self.topic = topic
        self._cluster = cluster
        self._group = group
        self.max_bytes = max_bytes
        self._on_corrupt = on_corrupt
        known = {"session_timeout_ms": SESSION_MS, "metadata_max_age_ms": _METADATA_MS}
        self._settings = known | settings
        self._where = f"topic {topic!r} at {cluster.servers}"
        self._listener = Listener()
        self._consumer: KafkaConsumer | None = None
        self._producer: KafkaProducer | None = None
        self._is_unsure = False

    def ready(self) -> None:
        """Be able to commit; a commit of which nobody knows what came is settled first."""
        if self._producer is not None:
            return
        producer = self._cluster.producer(
            transactional_id=self.name,
            transaction_timeout_ms=TRANSACTION_MS,
            metadata_max_age_ms=_METADATA_MS,
        )
        try:
            with told(self._where):
                producer.init_transactions()
        except BaseException:
            discard(producer)
            raise
        self._producer = producer

    def poll(self, limit: int, wait_ms: int = POLL_MS) -> Polled:
        """Return at most `limit` messages, waiting a moment for the first.

        Of partitions that have changed hands, what was known holds no more, and `seek` is to say
        where they go on.
        """
        consumer, found, damage, unsure = self._joined(), {}, None, self._is_unsure
        self._is_unsure = True  # what was fetched before something fails is lost
        with told(self._where):
            try:
                found = fetched(consumer, wait_ms, limit)
            except kafka_errors.CorruptRecordError as error:
                damage = self._past_damage(consumer, error)
            except _NOWHERE:
                unsure = True  # a new partition was sent nowhere yet, or where it was to go is gone
            ownership = self._listener.take(unsure=unsure)
            member = consumer.group_metadata()
        if member.state == MemberState.REBALANCING:
            rejoin(consumer)
        messages = {
            partition.partition: [as_message(record, self.max_bytes) for record in records]
            for partition, records in found.items()
        }
        ends = {partition: each[-1].offset + 1 for partition, each in messages.items() if each}
        if damage is not None:
            messages[damage.partition] = [damage.message()]
            ends[damage.partition] = damage.end
        self._is_unsure = False
        return Polled(messages, ends, ownership, member)

    def _past_damage(self, consumer: KafkaConsumer, error: Exception) -> Damage:
        """Have the partition go on after the damaged messages that come next; return which."""
        damage = find_damage(self._cluster, self.topic, places_of(consumer))
        if damage is not None and self._on_corrupt == "skip":
            drop_undecodable(consumer)
            self.skip_to(damage.partition, damage.end)
            return damage
        self._leave()
        if damage is None:
            raise UnavailableError(f"{self._where}: {error}, but not a second time") from error
        raise damage.refusal(self._where) from error

    def seek(self, partition: int, offset: int | None) -> int:
        """Have `partition` go on at `offset`, None: at its beginning; return where that is.

        Raises DeletedError where that is not there any more.
        """
        consumer, at = self._joined(), TopicPartition(self.topic, partition)
        starts, ends = span_of(consumer, [at], self._where)
        place = starts[at] if offset is None else offset
        check_place(self.topic, partition, place, starts[at], ends[at])
        self.skip_to(partition, place)
        return place

    def skip_to(self, partition: int, offset: int) -> None:
        """Have `partition` go on at `offset`, whatever is there."""
        try:
            self._joined().seek(TopicPartition(self.topic, partition), offset)
        except (AssertionError, kafka_errors.KafkaError) as error:  # it is another's by now
            raise MovedError(
                f"{self._where}: partition {partition} went to another member"
            ) from error

    def beginning(self, partition: int) -> int:
        """Return the offset at which a partition begins."""
        at = TopicPartition(self.topic, partition)
        return span_of(self._joined(), [at], self._where)[0][at]

    def lag(self, partition: int) -> int:
        """Return how many offsets are not polled yet, as of the newest answer of the broker."""
        consumer, at = self._joined(), TopicPartition(self.topic, partition)
        try:
            place = consumer.position(at, timeout_ms=MOMENT_MS)
        except (AssertionError, kafka_errors.KafkaError):
            return 0  # it is another's by now
        return max(int(consumer.highwater(at) or 0) - int(place), 0)

    def partitions(self) -> int:
        """Return how many partitions the topic has."""
        return len(numbers_of(self._joined(), self.topic, self._where))

    def writable(self, topic: str) -> int:
        """Return how many partitions of another topic can be written to, as far as is known."""
        assert self._producer is not None, "ready() comes first"
        where = f"topic {topic!r} at {self._cluster.servers}"
        with told(where):
            numbers = self._producer.partitions_for(topic)
        return len(numbers or ())

    def commit(self, writes: Sequence[Write], places: Mapping[int, int], polled: Polled) -> None:
        """Write messages, and where partitions go on, as one; as the member that `polled` them.

        Raises
        ------
        MovedError
            When partitions have moved since: nothing was written.
        UnavailableError
            When nobody can tell what came of it. What was made of the partitions is to be forgotten
            then, and read anew from what is committed.
        """
        self._refuse_moved(polled)
        assert self._producer is not None, "ready() comes first"
        dispatch = Dispatch(self._cluster, self._producer)
        offsets = {
            TopicPartition(self.topic, partition): OffsetAndMetadata(place, "", -1)
            for partition, place in places.items()
        }
        write = partial(self._write, self._producer, dispatch, writes, offsets, polled)
        mends = dict.fromkeys([self.topic, *(one.topic for one in writes)], CREATE_AGAIN)
        try:
            with told(self._where):
                dispatch.in_time(self._where, mends, write, patience=_PATIENCE)
        except MovedError:
            raise  # it is undone already
        except StateError as error:
            # The name is this member's alone: it stood still for longer than a transaction may.
            self._let_go()
            raise UnavailableError(f"{self._where}: a commit took too long: {error}") from error
        except ConnectorError as error:
            self._let_go()
            if isinstance(error.__cause__, kafka_errors.UnknownMemberIdError):
                raise MovedError(
                    f"{self._where}: it is no member of {self._group!r} now"
                ) from error
            raise
        except BaseException:
            self._let_go()  # the next one begins by settling this one
            raise

    def close(self) -> None:
        """Leave the group, and let go of the cluster."""
        self._let_go()
        self._leave()

    @property
    def identity(self) -> str | None:
        """What tells the topic from another of its name; None where the broker gives nothing."""
        return topic_id(self._joined(), self.topic)

    def _leave(self) -> None:
        if self._consumer is not None:
            self._consumer.close(autocommit=False, timeout_ms=2_000)
            self._consumer = None

    def _joined(self) -> KafkaConsumer:
        """Return the consumer, which takes part in the group."""
        if self._consumer is None:
            self._consumer = self._cluster.consumer(group_id=self._group, **self._settings)
            self._consumer.subscribe([self.topic], listener=self._listener)
        return self._consumer

    def _write(
        self,
        producer: KafkaProducer,
        dispatch: Dispatch,
        writes: Sequence[Write],
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        polled: Polled,
    ) -> None:
        producer.begin_transaction()
        for topic, partition, payload, about in writes:
            dispatch.send(topic, payload, partition=partition, **options_of(about))
        # All that is written shows as open before the group hears of it: see `newest`.
        dispatch.arrive(_PATIENCE)
        producer.send_offsets_to_transaction(offsets, polled.member)
        try:
            self._refuse_moved(polled)
        except MovedError:
            producer.abort_transaction()
            raise
        producer.commit_transaction()

    def _refuse_moved(self, polled: Polled) -> None:
        """Raise MovedError where what was polled is perhaps another's by now."""
        now = ConsumerGroupMetadata() if self._consumer is None else self._consumer.group_metadata()
        then = polled.member
        is_same = (now.generation_id, now.member_id) == (then.generation_id, then.member_id)
        is_same = is_same and self._listener.changes == polled.ownership.changes
        if then.generation_id < 0 or not is_same:
            raise MovedError(f"{self._where}: partitions went to other members of {self._group!r}")

    def _let_go(self) -> None:
        if self._producer is not None:
            discard(self._producer)
            self._producer = None
