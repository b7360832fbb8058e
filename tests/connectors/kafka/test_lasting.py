"""What the client library may raise is decided, class by class: waited for, or the end of a run."""

import inspect
from itertools import pairwise

import pytest
from kafka import errors

from streamboost.connectors.kafka.cluster import TOO_LARGE, told
from streamboost.connectors.kafka.lasting import LASTING
from streamboost.errors import ConnectorError, StateError, UnavailableError

WAITED_FOR = """
BrokerIdNotRegisteredError BrokerNotAvailableError BrokerResponseError CommitFailedError
CorruptRecordError DuplicateBrokerRegistrationError DuplicateResourceError
DuplicateSequenceNumberError DuplicateVoterError FeatureUpdateFailedError FencedInstanceIdError
FencedMemberEpochError FencedStateEpochError GroupIdNotFoundError GroupMaxSizeReachedError
GroupSubscribedToTopicError IllegalGenerationError IllegalStateError InconsistentVoterSetError
IneligibleReplicaError InvalidFetchRequestError InvalidProducerIdMappingError InvalidReceiveError
InvalidRecordError InvalidRecordStateError InvalidRegistrationError InvalidTimestampError
InvalidTxnStateError InvalidUpdateVersionError InvalidVoterKeyError KafkaError KafkaProtocolError
LogDirNotFoundError LogTruncationError MemberIdRequiredError NewLeaderElectedError NoError
NoOffsetForPartitionError NoReassignmentInProgressError NonEmptyGroupError
OffsetMovedToTieredStorageError OffsetOutOfRangeError OperationNotAttemptedError
OutOfOrderSequenceNumberError PositionOutOfRangeError QuotaViolationError
ReassignmentInProgressError RebalanceInProgressError ResourceNotFoundError SnapshotNotFoundError
StaleBrokerEpochError StaleControllerEpochError StaleMemberEpochError TelemetryTooLargeError
TopicAlreadyExistsError TransactionAbortableError TransactionAbortedError
TransactionCoordinatorFencedError TransactionalIdNotFoundError UnknownBrokerIdError
UnknownControllerIdError UnknownError UnknownProducerIdError UnknownSubscriptionIdError
UnreleasedInstanceIdError VoterNotFoundError
"""
"""Not retriable to the library within one call; a new client, or another time, may succeed."""


def below(kind):
    return {kind}.union(*map(below, kind.__subclasses__()))


CLASSES = sorted(below(errors.KafkaError), key=lambda kind: kind.__name__)


def made(kind):
    try:
        return kind("said by the broker")
    except TypeError:
        return kind(*["said by the broker"] * (len(inspect.signature(kind).parameters)))


def raised(kind):
    with pytest.raises((ConnectorError, StateError)) as caught, told("topic 'records'"):
        raise made(kind)
    return caught.value


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_class_of_error_is_waited_for_or_ends_the_run_as_decided(kind):
    waited_for = kind.retriable or kind.__name__ in WAITED_FOR.split()
    assert isinstance(raised(kind), UnavailableError) == waited_for, "decide it in `lasting.py`"


def test_no_class_is_decided_twice():
    names = sorted([*WAITED_FOR.split(), *(one.__name__ for one in (*LASTING, *TOO_LARGE))])
    assert [one for one, other in pairwise(names) if one == other] == []
    assert set(names) <= {one.__name__ for one in CLASSES}
    assert not any(one.retriable for one in LASTING)


def test_a_missing_codec_is_named_with_what_to_install():
    error = str(raised(errors.UnsupportedCodecError))
    for word in ("topic 'records'", "compressed", "install"):
        assert word in error
