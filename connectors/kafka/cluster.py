"""Apache Kafka: a cluster, its clients, and the translation of client errors.

A client of the library is used only by the thread that made it, unless stated otherwise.
"""

import logging
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import errors as kafka_errors

from streamboost.connectors.kafka.errors import CREDENTIALS, FENCED, remedy_for_fatal_error
from streamboost.connectors.kafka.internals import (
    force_close_producer,
    is_timeout,
    mentions_error_class,
    report_connection_errors,
    start_client,
)
from streamboost.connectors.kafka.options import (
    ADMIN,
    CONSUMER,
    PRODUCER,
    check_client_options,
    prepare_client_options,
)
from streamboost.errors import ConfigurationError, ConnectorError, StateError, UnavailableError

_log = logging.getLogger(__name__)

_SETTINGS = (
    ssl.SSLError,  # mostly a certificate that does not verify
    kafka_errors.InvalidReceiveError,  # another protocol, such as TLS
)
_HANGING_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""Errors if a connection is closed early, which also happens while a broker starts or stops."""

_OF_TYPES = (TypeError, ValueError)
_REASONS = (kafka_errors.KafkaError, OSError, *_OF_TYPES)
"""Types of connection errors. The library also logs errors of other types, when a client is
discarded."""

_silent: set[str] = set()
"""Unreachable servers that were logged already, so that retries do not log them again."""

MOMENT_MS = 10_000
"""Timeout of a request to the broker."""


@dataclass(frozen=True)
class KafkaCluster:
    """A cluster and its connection options.

    Parameters
    ----------
    servers : str
        One or several `host:port`, separated by commas.
    options : mapping
        Any other option of kafka-python's clients, such as `security_protocol`,
        `sasl_mechanism`, `ssl_cafile` or `compression_type`. Each client gets the options that it
        supports. `sasl_oauth_token_provider` is `package.module:name` of a callable that returns
        the provider.

    Raises
    ------
    ConfigurationError
        When no client has one of the options, or an option must not be set.

    Examples
    --------
    >>> KafkaCluster("localhost:9092", {"security_protocl": "SSL"})
    Traceback (most recent call last):
    streamboost.errors.ConfigurationError: Kafka has no option 'security_protocl': did you mean...
    """

    servers: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_client_options(self.options)

    def create_consumer(self, **settings: Any) -> KafkaConsumer:
        """Return a consumer that reads committed messages and does not commit offsets itself.

        `settings` override the cluster's options.
        """
        settings = {
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            # Reading starts at the offset of `seek`. "earliest" would skip a gap silently.
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
            "metadata_max_age_ms": 30_000,  # interval in which new partitions are detected
            "metrics_enabled": False,  # not used
        } | settings
        return self._make_client(KafkaConsumer, CONSUMER, settings)

    def create_producer(self, **settings: Any) -> KafkaProducer:
        """Return an idempotent producer, configured for large batches.

        `settings` override the cluster's options.
        """
        settings = {
            "enable_idempotence": True,
            "allow_auto_create_topics": False,
            "linger_ms": 5,
            "batch_size": 256 * 1024,
            "max_request_size": 32 * 1024 * 1024,  # the broker's own limit decides
            "max_block_ms": MOMENT_MS,
            "delivery_timeout_ms": 40_000,
            # The broker refuses a transaction until the end of the one before is written.
            "retry_backoff_ms": 5,
            "metrics_enabled": False,
        } | settings
        return self._make_client(KafkaProducer, PRODUCER, settings)

    def create_admin_client(self) -> KafkaAdminClient:
        """Return a client that describes and creates topics."""
        return self._make_client(KafkaAdminClient, ADMIN, {})

    def _make_client(
        self, client_class: Any, option_names: set[str], settings: dict[str, Any]
    ) -> Any:
        servers = [server.strip() for server in self.servers.split(",")]
        ours = {
            "bootstrap_servers": servers,
            "bootstrap_timeout_ms": MOMENT_MS,
            "reconnect_backoff_max_ms": 1_000,  # reconnects soon to a restarted broker
        }
        given = prepare_client_options(self.options)
        settings = (
            ours | settings | {name: value for name, value in given.items() if name in option_names}
        )
        has_credentials = "SASL" in str(given.get("security_protocol"))
        with (
            translate_errors(self.servers),
            _raise_connection_errors(self.servers, has_credentials=has_credentials),
        ):
            try:
                return start_client(client_class, settings)
            except (kafka_errors.KafkaConfigurationError, ValueError, TypeError) as error:
                raise ConfigurationError(
                    f"the Kafka options do not fit each other: {error}; see kafka-python's clients"
                ) from error


@contextmanager
def _raise_connection_errors(servers: str, *, has_credentials: bool) -> Iterator[None]:
    """Context manager for starting a client: raises an error with the cause of a failed connection.

    The client library raises only a timeout, and logs the cause. Raises ConnectorError if a retry
    cannot help, else UnavailableError. `has_credentials` says whether the client sends credentials.
    """
    found: list[Exception] = []

    def store_connection_error(reason: Exception) -> None:
        """Store the error of a failed connection; log the first error for these servers."""
        found.append(reason)
        if servers not in _silent:
            _silent.add(servers)
            _log.info(
                "no connection to %s yet: %s",
                servers,
                _connection_error_text(reason),
                extra={"event": "kafka_connecting"},
            )

    try:
        with report_connection_errors(_REASONS, store_connection_error):
            yield
        _silent.discard(servers)
    except kafka_errors.KafkaTimeoutError as error:
        reasons = [one for one in found if not isinstance(one, type(error))]
        for reason in reasons:
            if isinstance(reason, CREDENTIALS):
                raise reason from None
        # Single type errors are the library's own, when a broker stops.
        lasting = [one for one in reasons if _is_settings_error(one)]
        if reasons and all(isinstance(one, _OF_TYPES) for one in reasons):
            lasting = reasons
        if lasting:
            raise ConnectorError(
                f"{servers} cannot be used with the settings of [kafka]: "
                f"{_connection_error_text(lasting[-1])}; correct them, or the brokers"
            ) from error
        # The client does not always read a broker's last answer before it disconnects.
        hint = ", or hangs up on these credentials" if has_credentials else ""
        # The last attempt may only have timed out: earlier errors are more specific.
        met = [one for one in reasons if not is_timeout(one)] or reasons or [error]
        last = _connection_error_text(met[-1])
        raise UnavailableError(f"{servers} cannot be reached{hint}: {last}") from error


def _is_settings_error(error: Exception) -> bool:
    """Return whether `error` shows that a connection failed because of wrong settings."""
    within = (error, error.__context__, *error.args)
    if any(isinstance(one, _HANGING_UP) for one in within):
        return False
    return any(isinstance(one, _SETTINGS) for one in within)


def _connection_error_text(error: Exception) -> str:
    if isinstance(error, kafka_errors.InvalidReceiveError):
        return f"no answer as Kafka gives it ({error}); see whether security_protocol is to be SSL"
    return str(error) or repr(error)


@contextmanager
def translate_errors(resource_name: str) -> Iterator[None]:
    """Context manager that raises errors of the client library as errors of streamboost.

    Temporary errors become UnavailableError, others ConnectorError or StateError. Their messages
    begin with `resource_name`, such as a topic and its cluster.
    """
    try:
        yield
    except (kafka_errors.KafkaError, OSError) as error:
        raise _translate_error(resource_name, error) from error


def _translate_error(resource_name: str, error: Exception) -> ConnectorError | StateError:
    # Later calls of a failed producer raise an error that has the first one as an argument, or only
    # in its text.
    causes = [one for one in (error, *error.args) if isinstance(one, Exception)]
    is_fenced = any(mentions_error_class(error, kind) for kind in FENCED)
    if is_fenced or any(isinstance(one, FENCED) for one in causes):
        return StateError(
            f"{resource_name}: another process has taken this pipeline over, or this one paused in "
            "the middle of a commit, so it may not write any more; where no other one runs, start "
            "it again"
        )
    remedies = [remedy for one in causes if (remedy := remedy_for_fatal_error(type(one)))]
    if remedies:
        return ConnectorError(f"{resource_name}: {error}; {remedies[0]}, and start again")
    return UnavailableError(f"{resource_name} cannot be used now: {error!r}")


def close_producer(producer: KafkaProducer) -> None:
    """Close a producer immediately, without waiting for unsent messages."""
    try:
        producer.close(timeout=0)
    except kafka_errors.KafkaError:
        force_close_producer(producer)
