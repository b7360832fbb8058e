"""Apache Kafka: validation of client options before a connection."""

import difflib
import importlib
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, codec
from kafka.net.sasl import SASL_MECHANISMS

from streamboost.errors import ConfigurationError

CONSUMER = set(KafkaConsumer.DEFAULT_CONFIG)
PRODUCER = set(KafkaProducer.DEFAULT_CONFIG)
ADMIN = set(KafkaAdminClient.DEFAULT_CONFIG)
"""Options of each client."""

_DEFAULTS = (
    KafkaAdminClient.DEFAULT_CONFIG | KafkaProducer.DEFAULT_CONFIG | KafkaConsumer.DEFAULT_CONFIG
)

_TOKENS = "sasl_oauth_token_provider"

FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
"""Options whose value is the path of a file."""

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
"""Options that must not be set, with the reason."""

_CODECS: dict[str, Callable[[], bool]] = {
    "gzip": codec.has_gzip,
    "snappy": codec.has_snappy,
    "lz4": codec.has_lz4,
    "zstd": codec.has_zstd,
}
_CHOICES = {
    # With an unknown word, the client would connect without TLS.
    "security_protocol": ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"],
    "sasl_mechanism": list(SASL_MECHANISMS),
    "compression_type": list(_CODECS),
}
_PASSWORD = ["sasl_plain_username", "sasl_plain_password"]
_LOGINS = {
    "OAUTHBEARER": [_TOKENS],
    "PLAIN": _PASSWORD,
    "SCRAM-SHA-256": _PASSWORD,
    "SCRAM-SHA-512": _PASSWORD,
}
"""Options that each SASL mechanism requires."""


def check_client_options(options: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for an unknown option or an invalid value."""
    known = CONSUMER | PRODUCER | ADMIN
    for name, value in options.items():
        if name in _OURS:
            raise ConfigurationError(
                f"the Kafka option {name!r} cannot be set: {_OURS[name]}; leave it out"
            )
        if name not in known:
            near = difflib.get_close_matches(name, known - set(_OURS), 1)
            hint = f"did you mean {near[0]!r}?" if near else "see kafka-python's clients"
            raise ConfigurationError(f"Kafka has no option {name!r}: {hint}")
        if kind := _required_type_if_wrong(name, value):
            raise ConfigurationError(f"the Kafka option {name!r} is {value!r}: write {kind}")
        choices = _CHOICES.get(name, [value])
        if value not in choices:
            words = f"{', '.join(choices[:-1])} or {choices[-1]}"
            raise ConfigurationError(f"the Kafka option {name!r} is {value!r}: write {words}")
        if name == "compression_type" and not _CODECS[value]():
            raise ConfigurationError(
                f"the Kafka option {name!r} is {value!r}, and the library for that is not "
                f"installed: `pip install kafka-python[{value}]`, or choose gzip"
            )


def _required_type_if_wrong(name: str, value: Any) -> str | None:
    """Return the type that an option requires, as text, if `value` has another type; else None."""
    default = _DEFAULTS[name]
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(default, int | float):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if is_number else "a number"
    return None


def prepare_client_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `options` for a client, with an instance of the token provider.

    Raises ConfigurationError if a required option is missing, or a file is unusable.
    """
    made, protocol = dict(options), str(options.get("security_protocol"))
    if "SASL" in protocol:
        for name in ("sasl_mechanism", *_LOGINS.get(str(made.get("sasl_mechanism")), [])):
            if made.get(name) is None:
                raise ConfigurationError(
                    f"the Kafka option {name!r} is missing, which goes with "
                    f"security_protocol = {protocol!r}: write it in [kafka]"
                )
    if protocol in ("SSL", "SASL_SSL"):
        _check_certificate_files(made)
    if isinstance(made.get(_TOKENS), str):
        made[_TOKENS] = _make_token_provider(made[_TOKENS])
    return made


def _check_certificate_files(options: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if a certificate or key file cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def load_certificates(name: str, path: str) -> None:
        """Load a certificate file as a connection would; raise OSError if it is unusable."""
        if name == "ssl_cafile":
            context.load_verify_locations(path)
        elif name == "ssl_certfile":
            # Without a password argument, OpenSSL would ask at the terminal.
            password = options.get("ssl_password") or ""
            context.load_cert_chain(path, options.get("ssl_keyfile"), password)

    given = [(name, options[name]) for name in FILES if options.get(name) is not None]
    for use in (_check_file_is_readable, load_certificates):
        for name, path in given:
            try:
                use(name, path)
            except OSError as error:
                raise ConfigurationError(
                    f"the Kafka option {name!r} names {path}, which cannot be used: "
                    f"{error.strerror or error}; name a readable file in the PEM format"
                ) from error


def _check_file_is_readable(name: str, path: str) -> None:
    with Path(path).open("rb"):
        pass


def _make_token_provider(import_path: str) -> Any:
    """Return the token provider that the function or class at `import_path` returns.

    `import_path` has the form `package.module:name`.
    """
    module, _, attribute = import_path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"the Kafka option {_TOKENS!r} is {import_path!r}, which cannot be found: {error}; "
            "write package.module:name of a class derived from kafka-python's AbstractTokenProvider"
        ) from error
