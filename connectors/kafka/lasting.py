"""Which of the client library's errors waiting cannot mend.

Whoever adds a class decides: what a change of brokers, leaders, members or the network may end is
waited for; what the settings, the rights or the data mean stays until somebody changes them.
"""

from kafka import errors
from kafka.consumer.fetcher import RecordTooLargeError

__all__ = ["CODECS", "LASTING"]

CODECS = (errors.UnsupportedCodecError, errors.UnsupportedCompressionTypeError)
"""Messages that are compressed in a way that this installation, or the broker, cannot do."""

LASTING = (
    *CODECS,
    # A setting, or a request that no broker would take.
    errors.IllegalArgumentError,
    errors.InconsistentGroupProtocolError,
    errors.InvalidCommitOffsetSizeError,
    errors.InvalidConfigurationError,
    errors.InvalidGroupIdError,
    errors.InvalidPartitionsError,
    errors.InvalidReplicationAssignmentError,
    errors.InvalidReplicationFactorError,
    errors.InvalidRequestError,
    errors.InvalidRequiredAcksError,
    errors.InvalidSessionTimeoutError,
    errors.InvalidTopicError,
    errors.InvalidTransactionTimeoutError,
    errors.KafkaConfigurationError,
    errors.OffsetMetadataTooLargeError,
    errors.PolicyViolationError,
    RecordTooLargeError,
    errors.TopicDeletionDisabledError,
    # Another release, or another kind of cluster.
    errors.InconsistentClusterIdError,
    errors.MismatchedEndpointTypeError,
    errors.UnrecognizedBrokerVersion,
    errors.UnsupportedAssignorError,
    errors.UnsupportedEndpointTypeError,
    errors.UnsupportedForMessageFormatError,
    errors.UnsupportedVersionError,
    # Who somebody is.
    errors.DelegationTokenAuthDisabledError,
    errors.DelegationTokenExpiredError,
    errors.DelegationTokenNotFoundError,
    errors.DelegationTokenOwnerMismatchError,
    errors.DelegationTokenRequestNotAllowedError,
    errors.InvalidPrincipalTypeError,
    errors.PrincipalDeserializationFailureError,
    errors.SecurityDisabledError,
    errors.UnacceptableCredentialError,
)
