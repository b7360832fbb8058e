"""Apache Kafka: a cluster, its clients, and what goes wrong there in our words.

The client library's objects are used by one thread, the one that made them, unless told otherwise.
"""

import logging
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors

from streamboost.connectors.kafka.errors import CREDENTIALS, FENCED, remedy_for
from streamboost.connectors.kafka.internals import (
    force_close,
    names_error,
    ran_out_of_time,
    started,
    watched_connections,
)
from streamboost.connectors.kafka.options import ADMIN, CONSUMER, PRODUCER, check_options, complete
from streamboost.errors import ConfigurationError, ConnectorError, StateError, UnavailableError

__all__ = ["MOMENT_MS", "KafkaCluster", "discard", "told"]

_log = logging.getLogger(__name__)

_SETTINGS = (
    ssl.SSLError,  # above all a certificate that does not verify
    kafka_errors.InvalidReceiveError,  # another protocol, such as TLS
)
_HANGING_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""How a connection ends in the middle, as it does also where a broker starts or stops."""

_OF_TYPES = (TypeError, ValueError)
_REASONS = (kafka_errors.KafkaError, OSError, *_OF_TYPES)
"""What a connection fails of; the library logs other errors where a client is thrown away."""

_silent: set[str] = set()
"""Servers that were said to be away, until they are there: each try to reach them is a client."""

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
        check_options(self.options)

    def consumer(self, **settings: Any) -> KafkaConsumer:
        """Return a consumer that reads what was committed, and only where it is sent to."""
        settings = {
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            # Reading starts where `seek` says. "earliest" would pass over a gap in silence.
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
            "metadata_max_age_ms": 30_000,  # how soon new partitions are seen
            "metrics_enabled": False,  # nobody reads them
        } | settings
        return self._client(KafkaConsumer, CONSUMER, settings)

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
            "metrics_enabled": False,
        } | settings
        return self._client(KafkaProducer, PRODUCER, settings)

    def admin(self) -> KafkaAdminClient:
        """Return a client that asks for and creates topics."""
        return self._client(KafkaAdminClient, ADMIN, {})

    def _client(self, make: Any, known: set[str], settings: dict[str, Any]) -> Any:
        servers = [server.strip() for server in self.servers.split(",")]
        ours = {
            "bootstrap_servers": servers,
            "bootstrap_timeout_ms": MOMENT_MS,
            "reconnect_backoff_max_ms": 1_000,  # a broker that comes back is seen soon
        }
        given = complete(self.options)
        settings = ours | settings | {name: value for name, value in given.items() if name in known}
        guarded = "SASL" in str(given.get("security_protocol"))
        with told(self.servers), _refusals_raised(self.servers, guarded=guarded):
            try:
                return started(make, settings)
            except (kafka_errors.KafkaConfigurationError, ValueError, TypeError) as error:
                raise ConfigurationError(
                    f"the Kafka options do not fit each other: {error}; see kafka-python's clients"
                ) from error


@contextmanager
def _refusals_raised(servers: str, *, guarded: bool) -> Iterator[None]:
    """Raise why a client does not start, as an error that stays where waiting cannot mend it.

    The client only logs it: what it raises is that time has run out. `guarded` says that the
    servers ask for credentials.
    """
    found: list[Exception] = []

    def note(reason: Exception) -> None:
        """Keep a reason; log the first one for these servers."""
        found.append(reason)
        if servers not in _silent:
            _silent.add(servers)
            _log.info("no connection to %s yet: %s", servers, _said(reason))

    try:
        with watched_connections(_REASONS, note):
            yield
        _silent.discard(servers)
    except kafka_errors.KafkaTimeoutError as error:
        reasons = [one for one in found if not isinstance(one, type(error))]
        for reason in reasons:
            if isinstance(reason, CREDENTIALS):
                raise reason from None
        # One of types alone, now and then, is the library's own, where a broker goes away.
        lasting = [one for one in reasons if _is_of_settings(one)]
        if reasons and all(isinstance(one, _OF_TYPES) for one in reasons):
            lasting = reasons
        if lasting:
            raise ConnectorError(
                f"{servers} cannot be used with the settings of [kafka]: {_said(lasting[-1])}; "
                "mend them, or the brokers"
            ) from error
        # What a broker says right before it hangs up, the client does not always read.
        hint = ", or hangs up on these credentials" if guarded else ""
        # The last try may only have had no time left: that says less than what those before met.
        met = [one for one in reasons if not ran_out_of_time(one)] or reasons or [error]
        last = _said(met[-1])
        raise UnavailableError(f"{servers} cannot be reached{hint}: {last}") from error


def _is_of_settings(reason: Exception) -> bool:
    """Tell whether a connection fails of its settings, and not of where the cluster is just now."""
    within = (reason, reason.__context__, *reason.args)
    if any(isinstance(one, _HANGING_UP) for one in within):
        return False
    return any(isinstance(one, _SETTINGS) for one in within)


def _said(reason: Exception) -> str:
    if isinstance(reason, kafka_errors.InvalidReceiveError):
        return f"no answer as Kafka gives it ({reason}); see whether security_protocol is to be SSL"
    return str(reason) or repr(reason)


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
    # Later calls of a producer that has failed give what it failed of as an argument of theirs, or
    # in words alone.
    causes = [one for one in (error, *error.args) if isinstance(one, Exception)]
    is_fenced = any(names_error(error, kind) for kind in FENCED)
    if is_fenced or any(isinstance(one, FENCED) for one in causes):
        return StateError(
            f"{where}: another process has taken this pipeline over, or this one stood still in "
            "the middle of a commit, so it may not write any more; where no other one runs, start "
            "it again"
        )
    remedies = [remedy for one in causes if (remedy := remedy_for(type(one)))]
    if remedies:
        return ConnectorError(f"{where}: {error}; {remedies[0]}, and start again")
    return UnavailableError(f"{where} cannot be used now: {error!r}")


def discard(producer: KafkaProducer) -> None:
    """Close a producer at once, whatever it was doing."""
    try:
        producer.close(timeout=0)
    except kafka_errors.KafkaError:
        force_close(producer)
