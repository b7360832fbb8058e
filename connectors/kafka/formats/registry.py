"""Schema registry client for Confluent's API, with its errors translated."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streamboost.errors import ConfigurationError, ConnectorError, UnavailableError

_SECONDS = 10
"""Timeout of a request in seconds."""

_PASSING = (408, 425, 429, 500, 502, 503, 504)
"""HTTP status codes of temporary errors."""

_UNKNOWN_SUBJECT, _UNKNOWN_VERSION, _UNKNOWN_SCHEMA = 40401, 40402, 40403
"""API error codes for missing subjects, versions and schemas."""

_OF_ANOTHER = (ValueError, LookupError, TypeError, AttributeError)
"""Errors of the client if the server at the address has another API."""

_NOT_THERE = (_UNKNOWN_SUBJECT, _UNKNOWN_VERSION, _UNKNOWN_SCHEMA)


class RegisteredSchema(NamedTuple):
    """Schema as stored in a registry.

    `kind` is "AVRO", "JSON" or "PROTOBUF". `named` are the texts of referenced schemas; a schema
    follows the schemas that it references itself. `version` is the version in the subject, or None
    if it was not requested.
    """

    kind: str
    text: str
    named: tuple[str, ...] = ()
    version: int | None = None

    @property
    def field_names(self) -> list[str]:
        """Names of the fields of a record schema; empty for other schemas."""
        try:
            schema = json.loads(self.text)
            known = schema["fields"] if self.kind == "AVRO" else schema["properties"]
            return [one["name"] for one in known] if self.kind == "AVRO" else list(known)
        except (ValueError, LookupError, TypeError):
            return []


@dataclass
class Registry:
    """Schema registry and its connection settings; connects on first use.

    Parameters
    ----------
    url : str
        Address of its API, or several, separated by commas.
    username, password : str or None
        Credentials for HTTP basic authentication; None: no authentication.
    ca : str or None
        PEM file of trusted certificates, in place of the system's.

    Raises
    ------
    ConfigurationError
        When its client is not installed, or the settings are invalid.
    ConnectorError
        On a request that the registry refuses, or if there is no registry at the address.
    UnavailableError
        On a request to which the registry gives no answer now.
    """

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    _client: Any = field(default=None, init=False, repr=False, compare=False)

    def get_schema(self, id: int) -> RegisteredSchema | None:
        """Return the schema with this id, or None if it does not exist."""
        with self._translate_errors(f"schema {id}") as client:
            return self._load_schema_with_references(client, client.get_schema(id))
        return None

    def newest_schema(self, subject: str) -> RegisteredSchema | None:
        """Return the newest schema of a subject, or None if it has none."""
        with self._translate_errors(f"subject {subject!r}") as client:
            found = client.get_latest_version(subject)
            return self._load_schema_with_references(client, found.schema)._replace(
                version=found.version
            )
        return None

    def lookup_id_and_version(self, subject: str, kind: str, text: str) -> tuple[int, int] | None:
        """Return id and version of the schema `text` in a subject; None if it is not registered."""
        from confluent_kafka.schema_registry import Schema

        with self._translate_errors(f"subject {subject!r}") as client:
            found = client.lookup_schema(subject, Schema(text, kind))
            return found.schema_id, found.version
        return None

    def is_compatible(self, subject: str, kind: str, text: str) -> bool:
        """Return whether the registry accepts the schema `text` as the subject's next version."""
        from confluent_kafka.schema_registry import Schema

        with self._translate_errors(f"subject {subject!r}") as client:
            return bool(client.test_compatibility(subject, Schema(text, kind)))
        return True

    def register_schema(self, subject: str, kind: str, text: str) -> int:
        """Register the schema `text` in a subject, if it is not registered yet; return its id."""
        from confluent_kafka.schema_registry import Schema

        known = self.lookup_id_and_version(
            subject, kind, text
        )  # possible without the right to register
        if known is not None:
            return known[0]
        with self._translate_errors(f"subject {subject!r}") as client:
            return int(client.register_schema(subject, Schema(text, kind)))
        raise ConnectorError(f"the schema registry {self.url} has no place for {subject!r}")

    def close(self) -> None:
        """Release the connection; the next request connects again."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _load_schema_with_references(
        self, client: Any, schema: Any, ancestors: tuple[Any, ...] = ()
    ) -> RegisteredSchema:
        """Return a schema of the client as `RegisteredSchema`, with the schemas it references."""
        named: list[str] = []
        for one in schema.references or ():
            place = one.subject, one.version
            if place in ancestors:
                raise ConnectorError(
                    f"the schema registry {self.url}: {one.subject} version {one.version} refers "
                    "to itself; correct its references"
                )
            found = self._load_schema_with_references(
                client, client.get_version(*place).schema, (*ancestors, place)
            )
            named += [*found.named, found.text]
        return RegisteredSchema(schema.schema_type, schema.schema_str, tuple(dict.fromkeys(named)))

    def _connected_client(self) -> Any:
        if self._client is not None:
            return self._client
        client = _import_registry_client()
        settings: dict[str, Any] = {"url": self.url, "timeout": _SECONDS}
        settings["max.retries"] = 0  # the caller retries
        if self.username is not None:
            settings["basic.auth.user.info"] = f"{self.username}:{self.password or ''}"
        if self.ca is not None:
            settings["ssl.ca.location"] = self.ca
        try:
            self._client = client(settings)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"[schema_registry] cannot be used: {error}; correct `url`, and name in `ca` a "
                "readable file in the PEM format"
            ) from error
        return self._client

    @contextmanager
    def _translate_errors(self, requested: str) -> Iterator[Any]:
        """Context manager: yields the client, and raises its errors as ConnectorError.

        `requested` names the requested item in error messages. Errors for a missing item are
        suppressed.
        """
        client = self._connected_client()
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            yield client
        except SchemaRegistryError as error:
            if error.error_code not in _NOT_THERE:
                raise self._request_error(requested, error) from error
        except (ConnectorError, ConfigurationError):
            raise
        except Exception as error:
            # Errors of the client's HTTP library for a failed connection.
            said = str(error) or repr(error)
            if "CERTIFICATE_VERIFY_FAILED" in said:
                raise ConnectorError(
                    f"the schema registry {self.url} is not trusted: {said}; name in "
                    "[schema_registry] `ca` the certificate that signs its own"
                ) from error
            if isinstance(error, _OF_ANOTHER):
                raise ConnectorError(
                    f"the schema registry {self.url} does not answer as Confluent's API does: "
                    f"{said}; see whether `url` of [schema_registry] is where that begins"
                ) from error
            raise UnavailableError(
                f"the schema registry {self.url} cannot be reached: {said}"
            ) from error

    def _request_error(self, requested: str, error: Any) -> ConnectorError:
        status, said = error.http_status_code, error.error_message or "without a word"
        where = f"the schema registry {self.url}"
        if status in _PASSING:
            return UnavailableError(f"{where} cannot be used now: {status}, {said}")
        if status in (401, 403):
            return ConnectorError(
                f"{where} refuses {requested}: {status}, {said}; correct `username` and `password` "
                "of [schema_registry], or what the account may do"
            )
        if status == 404:
            return ConnectorError(
                f"{where} has no {requested}: {status}, {said}; see whether `url` of "
                "[schema_registry] is where Confluent's API begins"
            )
        if status == 409:
            return ConnectorError(
                f"{where}: {requested} holds schemas that do not go with this one: {said}; name a "
                "topic of its own, or set the subject's compatibility"
            )
        return ConnectorError(f"{where} refuses {requested}: {status}, {said}")


def _import_registry_client() -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise ConfigurationError(
            f"[schema_registry] needs a client that is not installed ({error}): install "
            "streamboost[registry]"
        ) from error
    return SchemaRegistryClient
