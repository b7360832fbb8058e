"""Apache Kafka: a cluster, its clients, and what goes wrong there in our words.

The client library's objects are used by one thread, the one that made them, unless told otherwise.
"""

import difflib
import importlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors

from streamboost.errors import ConfigurationError, ConnectorError, StateError, UnavailableError

__all__ = ["MOMENT_MS", "TOO_LARGE", "KafkaCluster", "discard", "told"]

_CONSUMER = set(KafkaConsumer.DEFAULT_CONFIG)
_PRODUCER = set(KafkaProducer.DEFAULT_CONFIG)
_ADMIN = set(KafkaAdminClient.DEFAULT_CONFIG)
_TOKENS = "sasl_oauth_token_provider"

_OURS = {
    "bootstrap_servers": "it is the cluster's first argument",
    "group_id": "it follows from the pipeline's name",
    "group_instance_id": "partitions are assigned, not shared out by a group",
    "partition_assignment_strategy": "partitions are assigned, not shared out by a group",
    "transactional_id": "it follows from the pipeline's name",
    "enable_auto_commit": "positions are committed with what was made of the records",
    "auto_offset_reset": "reading starts at a topic's beginning, and a gap is an error",
    "isolation_level": "only what was committed is read",
    "enable_idempotence": "nothing may be written twice",
    "acks": "a write counts once every replica has it",
    "key_serializer": "messages are bytes",
    "value_serializer": "messages are bytes",
    "key_deserializer": "messages are bytes",
    "value_deserializer": "messages are bytes",
    "consumer_timeout_ms": "polling never waits for longer than a moment",
    "allow_auto_create_topics": "a misspelt topic is an error; `streamboost check` creates topics",
}
"""Options that cannot be set, and why."""

_FENCED = (kafka_errors.ProducerFencedError, kafka_errors.InvalidProducerEpochError)
_CREDENTIALS = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.AuthorizationError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
)
TOO_LARGE = (kafka_errors.MessageSizeTooLargeError, kafka_errors.RecordListTooLargeError)
"""How a message over a limit is refused."""

MOMENT_MS = 10_000
"""What one question to the broker may take."""


@dataclass(frozen=True)
class KafkaCluster:
    """A cluster and how to reach it.

    Parameters
    ----------
    servers : str
        One or several `host:port`, separated by commas.
    options : mapping
        Any other option of kafka-python's clients, such as `security_protocol`,
        `sasl_mechanism`, `ssl_cafile` or `compression_type`; each client takes those it knows.
        `sasl_oauth_token_provider` is `package.module:name`, what is called for the provider.

    Raises
    ------
    ConfigurationError
        When no client knows an option, or it is not to be set.

    Examples
    --------
    >>> KafkaCluster("localhost:9092", {"security_protocl": "SSL"})
    Traceback (most recent call last):
    streamboost.errors.ConfigurationError: Kafka has no option 'security_protocl': did you mean...
    """

    servers: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = _CONSUMER | _PRODUCER | _ADMIN
        for name in self.options:
            if name in _OURS:
                raise ConfigurationError(
                    f"the Kafka option {name!r} cannot be set: {_OURS[name]}; leave it out"
                )
            if name not in known:
                near = difflib.get_close_matches(name, known - set(_OURS), 1)
                hint = f"did you mean {near[0]!r}?" if near else "see kafka-python's clients"
                raise ConfigurationError(f"Kafka has no option {name!r}: {hint}")

    def consumer(self, **settings: Any) -> KafkaConsumer:
        """Return a consumer that reads what was committed, and only where it is sent to."""
        settings = {
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            # Reading starts where `seek` says. "earliest" would pass over a gap in silence.
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
            "metadata_max_age_ms": 30_000,  # how soon new partitions are seen
        } | settings
        return self._client(KafkaConsumer, _CONSUMER, settings)

    def producer(self, **settings: Any) -> KafkaProducer:
        """Return a producer that writes nothing twice, in batches that suit whole commits."""
        settings = {
            "enable_idempotence": True,
            "allow_auto_create_topics": False,
            "linger_ms": 5,
            "batch_size": 256 * 1024,
            "max_request_size": 32 * 1024 * 1024,  # the broker's own limit decides
            "max_block_ms": MOMENT_MS,
            "delivery_timeout_ms": 40_000,
            # The broker turns a transaction away while it still writes the end of the one before.
            "retry_backoff_ms": 5,
        } | settings
        return self._client(KafkaProducer, _PRODUCER, settings)

    def admin(self) -> KafkaAdminClient:
        """Return a client that asks for and creates topics."""
        return self._client(KafkaAdminClient, _ADMIN, {})

    def _client(self, make: Any, known: set[str], settings: dict[str, Any]) -> Any:
        servers = [server.strip() for server in self.servers.split(",")]
        ours = {
            "bootstrap_servers": servers,
            "bootstrap_timeout_ms": MOMENT_MS,
            "reconnect_backoff_max_ms": 1_000,  # a broker that comes back is seen soon
        }
        given = {name: value for name, value in self.options.items() if name in known}
        if isinstance(given.get(_TOKENS), str):
            given[_TOKENS] = _provider(given[_TOKENS])
        guarded = "SASL" in str(given.get("security_protocol"))
        with told(self.servers), _refusals_raised(self.servers if guarded else None):
            try:
                return make(**(ours | settings | given))
            except (kafka_errors.KafkaConfigurationError, ValueError, TypeError) as error:
                raise ConfigurationError(
                    f"the Kafka options do not fit each other: {error}; see kafka-python's clients"
                ) from error


def _provider(name: str) -> Any:
    """Return what the callable `package.module:name` gives."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"the Kafka option {_TOKENS!r} is {name!r}, which cannot be found: {error}; write "
            "package.module:name of a class derived from kafka-python's AbstractTokenProvider"
        ) from error


class _Refusals(logging.Handler):
    """Keeps what the client library says of refused credentials."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Exception] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found += [one for one in record.args or () if isinstance(one, _CREDENTIALS)]


@contextmanager
def _refusals_raised(guarded: str | None) -> Iterator[None]:
    """Raise the refused credentials that kept a client from starting.

    The client only logs them: what it raises is that time has run out. `guarded` are servers that
    ask for credentials.
    """
    refusals, log = _Refusals(), logging.getLogger("kafka.net.manager")
    log.addHandler(refusals)
    try:
        yield
    except kafka_errors.KafkaTimeoutError as error:
        if refusals.found:
            raise refusals.found[-1] from None
        if guarded is None:
            raise
        # What a broker says right before it hangs up, the client does not always read.
        raise UnavailableError(
            f"{guarded} cannot be reached, or hangs up on these credentials: {error}"
        ) from error
    finally:
        log.removeHandler(refusals)


@contextmanager
def told(where: str) -> Iterator[None]:
    """Raise what the client library refuses as an error of ours that names `where`.

    What may pass by itself is an UnavailableError.
    """
    try:
        yield
    except (kafka_errors.KafkaError, OSError) as error:
        raise _in_our_words(where, error) from error


def _in_our_words(where: str, error: Exception) -> ConnectorError | StateError:
    # Later calls of a producer that has failed give what it failed of as an argument of theirs.
    causes = [one for one in (error, *error.args) if isinstance(one, Exception)]
    if any(isinstance(one, _FENCED) for one in causes):
        return StateError(
            f"{where}: another process has taken this pipeline over, or this one stood still in "
            "the middle of a commit, so it may not write any more; where no other one runs, start "
            "it again"
        )
    if any(isinstance(one, _CREDENTIALS) for one in causes):
        return ConnectorError(
            f"{where}: these credentials are refused: {error}; mend them, or what the account "
            "may do"
        )
    if any(isinstance(one, TOO_LARGE) for one in causes):
        return ConnectorError(
            f"{where}: a message is larger than the broker takes: {error}; raise the topic's "
            "max.message.bytes"
        )
    if isinstance(error, kafka_errors.UnknownMemberIdError):
        return ConnectorError(
            f"{where}: its consumer group has members, and partitions would be read twice: stop "
            "what else reads under this group"
        )
    return UnavailableError(f"{where} cannot be used now: {error!r}")


def discard(producer: KafkaProducer) -> None:
    """Close a producer at once, whatever it was doing."""
    try:
        producer.close(timeout=0)
    except kafka_errors.KafkaError:
        # It gives up where it cannot flush, and its thread would go on sending.
        producer._sender.force_close()
