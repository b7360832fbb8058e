"""Apache Kafka: classification of client errors into fatal and retried ones, with remedies.

The library's own `retriable` has another meaning: whether the same request may be sent again.
streamboost closes a failed producer or consumer and creates a new one, which fixes more errors.
Other errors do not depend on the request, and persist. `END` maps each fatal error class to its
remedy, and `RETRIED` has the other classes. Together, they contain every error class of the pinned
releases.
"""

from typing import Final

from kafka import errors as kafka_errors
from kafka.consumer.fetcher import RecordTooLargeError
from kafka.coordinator.base import UnjoinedGroupException

FENCED: Final = (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError)
"""Errors if another process has taken over the transactional id."""

CREDENTIALS: Final = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.AuthorizationError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
)
"""Errors of authentication or authorization."""

TOO_LARGE: Final = (
    kafka_errors.MessageSizeTooLargeError,
    kafka_errors.RecordListTooLargeError,
)
"""Errors if a message exceeds a size limit."""

_LOGIN = (
    "these credentials are refused: correct them in [kafka], or what the account is allowed to do"
)
_MECHANISM = (
    "the broker does not authenticate in this way: correct `security_protocol` and "
    "`sasl_mechanism` in [kafka]"
)
_SIZE = "a message is larger than the broker accepts: raise the topic's max.message.bytes"
_RELEASE = "use brokers and a release of kafka-python that fit each other"
_OPTIONS = "correct the options in [kafka], or the broker's settings"
_TOPIC = "correct the topic's name or settings"
_GROUP = (
    "its consumer group has members, and partitions would be read twice: stop what else reads "
    "under this group"
)
_REPORT = "report it with the lines of the log before it"

END: Final[dict[type[Exception], str]] = {
    kafka_errors.UnsupportedCodecError: "install what reads the topic's compression: `pip install "
    "'kafka-python[lz4,snappy,zstd]'`",
    kafka_errors.UnsupportedCompressionTypeError: "set another `compression_type` in [kafka]",
    kafka_errors.LogTruncationError: "messages that were read are gone from the topic, as after an "
    "unclean leader election: bring the topic back from a copy, or start again to continue "
    "with the remaining messages",
    kafka_errors.AuthorizationError: _LOGIN,
    kafka_errors.TopicAuthorizationFailedError: _LOGIN,
    kafka_errors.GroupAuthorizationFailedError: _LOGIN,
    kafka_errors.ClusterAuthorizationFailedError: _LOGIN,
    kafka_errors.TransactionalIdAuthorizationFailedError: _LOGIN,
    kafka_errors.DelegationTokenAuthorizationFailedError: _LOGIN,
    kafka_errors.SaslAuthenticationFailedError: _LOGIN,
    kafka_errors.DelegationTokenAuthDisabledError: _LOGIN,
    kafka_errors.DelegationTokenNotFoundError: _LOGIN,
    kafka_errors.DelegationTokenOwnerMismatchError: _LOGIN,
    kafka_errors.DelegationTokenRequestNotAllowedError: _LOGIN,
    kafka_errors.DelegationTokenExpiredError: _LOGIN,
    kafka_errors.InvalidPrincipalTypeError: _LOGIN,
    kafka_errors.UnacceptableCredentialError: _LOGIN,
    kafka_errors.SecurityDisabledError: _LOGIN,
    kafka_errors.UnsupportedSaslMechanismError: _MECHANISM,
    kafka_errors.IllegalSaslStateError: _MECHANISM,
    kafka_errors.MessageSizeTooLargeError: _SIZE,
    kafka_errors.RecordListTooLargeError: _SIZE,
    RecordTooLargeError: "raise `max_partition_fetch_bytes` in [kafka]",
    kafka_errors.InvalidTimestampError: "raise the topic's message.timestamp.before.max.ms and "
    "message.timestamp.after.max.ms",
    kafka_errors.InvalidRecordError: 'give records keys, or set cleanup.policy to "delete"',
    kafka_errors.UnrecognizedBrokerVersion: _RELEASE,
    kafka_errors.UnsupportedVersionError: _RELEASE,
    kafka_errors.IncompatibleBrokerVersion: _RELEASE,
    kafka_errors.UnsupportedForMessageFormatError: _RELEASE,
    kafka_errors.UnsupportedAssignorError: _RELEASE,
    kafka_errors.KafkaConfigurationError: _OPTIONS,
    kafka_errors.InvalidRequiredAcksError: _OPTIONS,
    kafka_errors.InvalidSessionTimeoutError: "set `session_timeout_ms` between the broker's "
    "group.min.session.timeout.ms and group.max.session.timeout.ms",
    kafka_errors.InvalidTransactionTimeoutError: "set `transaction_timeout_ms` to at most the "
    "broker's transaction.max.timeout.ms",
    kafka_errors.InvalidFetchRequestError: _OPTIONS,
    kafka_errors.PolicyViolationError: _OPTIONS,
    kafka_errors.InconsistentClusterIdError: "name servers of one cluster in bootstrap_servers",
    kafka_errors.MismatchedEndpointTypeError: "name brokers in bootstrap_servers, no controllers",
    kafka_errors.UnsupportedEndpointTypeError: "name brokers in bootstrap_servers, no controllers",
    kafka_errors.InvalidTopicError: _TOPIC,
    kafka_errors.InvalidConfigurationError: _TOPIC,
    kafka_errors.InvalidPartitionsError: _TOPIC,
    kafka_errors.InvalidReplicationAssignmentError: _TOPIC,
    kafka_errors.TopicDeletionDisabledError: _TOPIC,
    kafka_errors.InvalidGroupIdError: "give the pipeline another name",
    kafka_errors.UnknownMemberIdError: _GROUP,
    kafka_errors.NonEmptyGroupError: _GROUP,
    kafka_errors.InconsistentGroupProtocolError: _GROUP,
    kafka_errors.FencedInstanceIdError: _GROUP,
    kafka_errors.GroupSubscribedToTopicError: _GROUP,
    kafka_errors.IllegalArgumentError: _REPORT,
    kafka_errors.InvalidRequestError: _REPORT,
    kafka_errors.OffsetMetadataTooLargeError: _REPORT,
    kafka_errors.InvalidCommitOffsetSizeError: _REPORT,
    kafka_errors.ResourceNotFoundError: _REPORT,
    kafka_errors.DuplicateResourceError: _REPORT,
    kafka_errors.InvalidUpdateVersionError: _REPORT,
    kafka_errors.FeatureUpdateFailedError: _REPORT,
    kafka_errors.TelemetryTooLargeError: _REPORT,
    kafka_errors.OffsetMovedToTieredStorageError: _REPORT,
    kafka_errors.InvalidVoterKeyError: _REPORT,
    kafka_errors.DuplicateVoterError: _REPORT,
    kafka_errors.ProducerFencedError: "start again where no other process runs this pipeline",
    kafka_errors.InvalidProducerEpochError: "start again where no other process runs this pipeline",
}
"""Fatal errors, which a retry cannot fix, with the remedy for each."""

RETRIED: Final = frozenset(
    {
        # General classes: a retry raises the specific error, if that has a class of its own.
        kafka_errors.KafkaError,
        kafka_errors.RetriableError,
        kafka_errors.InvalidMetadataError,
        kafka_errors.BrokerResponseError,
        kafka_errors.KafkaProtocolError,
        kafka_errors.NoError,
        kafka_errors.UnknownError,
        kafka_errors.OperationNotAttemptedError,
        # Fixed by a new client.
        kafka_errors.Cancelled,
        kafka_errors.IllegalStateError,
        kafka_errors.CorrelationIdError,
        kafka_errors.InvalidReceiveError,  # a new connection shows if the error persists
        kafka_errors.TooManyInFlightRequests,
        kafka_errors.TransactionAbortedError,
        kafka_errors.TransactionAbortableError,
        kafka_errors.InvalidTxnStateError,
        kafka_errors.InvalidProducerIdMappingError,
        kafka_errors.UnknownProducerIdError,
        kafka_errors.OutOfOrderSequenceNumberError,
        kafka_errors.DuplicateSequenceNumberError,
        kafka_errors.ConcurrentTransactionsError,
        kafka_errors.TransactionCoordinatorFencedError,
        kafka_errors.TransactionalIdNotFoundError,
        kafka_errors.FetchSessionIdNotFoundError,
        kafka_errors.InvalidFetchSessionEpochError,
        kafka_errors.FetchSessionTopicIdError,
        kafka_errors.ShareSessionNotFoundError,
        kafka_errors.InvalidShareSessionEpochError,
        kafka_errors.InvalidRecordStateError,
        kafka_errors.UnknownSubscriptionIdError,
        # A new look finds the current state: the topic, its offsets, or the damage.
        kafka_errors.NoOffsetForPartitionError,
        kafka_errors.OffsetOutOfRangeError,
        kafka_errors.CorruptRecordError,
        kafka_errors.UnknownTopicOrPartitionError,
        kafka_errors.UnknownTopicIdError,
        kafka_errors.InconsistentTopicIdError,
        kafka_errors.TopicAlreadyExistsError,
        kafka_errors.GroupIdNotFoundError,
        # The network, or a broker that is busy, starts or stops.
        kafka_errors.KafkaConnectionError,
        kafka_errors.KafkaTimeoutError,
        kafka_errors.NetworkExceptionError,
        kafka_errors.RequestTimedOutError,
        kafka_errors.NodeNotReadyError,
        kafka_errors.BrokerNotAvailableError,
        kafka_errors.MetadataEmptyBrokerList,
        kafka_errors.UnknownBrokerIdError,
        kafka_errors.StaleMetadata,
        kafka_errors.ListenerNotFoundError,
        kafka_errors.QuotaViolationError,
        kafka_errors.ThrottlingQuotaExceededError,
        # Partitions and their replicas move.
        kafka_errors.LeaderNotAvailableError,
        kafka_errors.NotLeaderForPartitionError,
        kafka_errors.ReplicaNotAvailableError,
        kafka_errors.FencedLeaderEpochError,
        kafka_errors.UnknownLeaderEpochError,
        kafka_errors.OffsetNotAvailableError,
        kafka_errors.NotEnoughReplicasError,
        kafka_errors.NotEnoughReplicasAfterAppendError,
        kafka_errors.InvalidReplicationFactorError,  # fewer brokers are running just now
        kafka_errors.KafkaStorageError,
        kafka_errors.LogDirNotFoundError,
        kafka_errors.ReassignmentInProgressError,
        kafka_errors.NoReassignmentInProgressError,
        kafka_errors.PreferredLeaderNotAvailableError,
        kafka_errors.EligibleLeadersNotAvailableError,
        kafka_errors.ElectionNotNeededError,
        # The group rebalances, or its coordinator moves.
        UnjoinedGroupException,
        kafka_errors.CommitFailedError,
        kafka_errors.CoordinatorLoadInProgressError,
        kafka_errors.CoordinatorNotAvailableError,
        kafka_errors.NotCoordinatorError,
        kafka_errors.IllegalGenerationError,
        kafka_errors.RebalanceInProgressError,
        kafka_errors.MemberIdRequiredError,
        kafka_errors.UnstableOffsetCommitError,
        kafka_errors.FencedMemberEpochError,
        kafka_errors.StaleMemberEpochError,
        kafka_errors.UnreleasedInstanceIdError,
        kafka_errors.GroupMaxSizeReachedError,  # until another member leaves
        # Between brokers.
        kafka_errors.StaleControllerEpochError,
        kafka_errors.StaleBrokerEpochError,
        kafka_errors.NotControllerError,
        kafka_errors.UnknownControllerIdError,
        kafka_errors.InconsistentVoterSetError,
        kafka_errors.VoterNotFoundError,
        kafka_errors.NewLeaderElectedError,
        kafka_errors.IneligibleReplicaError,
        kafka_errors.FencedStateEpochError,
        kafka_errors.SnapshotNotFoundError,
        kafka_errors.PositionOutOfRangeError,
        kafka_errors.DuplicateBrokerRegistrationError,
        kafka_errors.BrokerIdNotRegisteredError,
        kafka_errors.InvalidRegistrationError,
        kafka_errors.PrincipalDeserializationFailureError,
    }
)
"""Errors that a retry may fix without any other change."""


def remedy_for_fatal_error(error_class: type[BaseException]) -> str | None:
    """Return the remedy for a fatal error, or None for an error that is retried.

    A class that is not listed, from another release of the library, is treated as its nearest base
    class.

    >>> remedy_for_fatal_error(kafka_errors.UnsupportedCompressionTypeError)
    'set another `compression_type` in [kafka]'
    >>> remedy_for_fatal_error(kafka_errors.KafkaTimeoutError)
    """
    for one in error_class.__mro__:
        if one in END:
            return END[one]
        if one in RETRIED:
            return None
    return None
