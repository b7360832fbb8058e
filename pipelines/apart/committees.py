"""What scorers predict by, as messages: written by the learner with the batch that made it.

An edition is a committee with all that belongs to it (`StreamLearner.freeze`), taken apart into
tables. Those that have not changed since they were last written are not written again. Each table
is cut into chunks with keys of their own, so that compaction keeps the newest of each; a manifest
that comes last names the tables of the edition by their digests.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ModelFileError, StateError
from streamboost.storage import Arrays, seal, unseal
from streamboost.stream.learner import StreamLearner

__all__ = ["CHUNK", "Edition", "Editions", "Publisher"]

CHUNK = 512 * 1024
"""Bytes of one message: brokers take a million by default."""

MANIFEST = "manifest"

_KIND = "table"


@dataclass(frozen=True, slots=True, eq=False)
class Edition:
    """What a record is predicted by; `number` is the learner's batch that published it."""

    number: int
    schema: Schema
    learner: StreamLearner

    @property
    def version(self) -> int:
        """The committee's; 0 before the first."""
        committee = self.learner.committee
        return committee.version if committee else 0


@dataclass(slots=True)
class Publisher:
    """Makes messages of editions, of what has changed since the last."""

    _sent: dict[str, list[Any]] = field(default_factory=dict)

    def messages(self, number: int, schema: Schema, learner: StreamLearner) -> list[bytes]:
        """Return the messages of an edition, each a key, a line's end and what stands under it."""
        messages: list[bytes] = []
        named: dict[str, list[Any]] = {}
        for table, arrays in _tables(learner.freeze()).items():
            blob = seal(arrays, kind=_KIND)
            chunks = [blob[i : i + CHUNK] for i in range(0, len(blob), CHUNK)]
            named[table] = [len(chunks), hashlib.blake2b(blob, digest_size=16).hexdigest()]
            if self._sent.get(table) != named[table]:
                messages += [b"%s/%d\n" % (table.encode(), i) + c for i, c in enumerate(chunks)]
        self._sent = named
        manifest = {"edition": number, "schema": schema.to_json(), "tables": named}
        return [*messages, MANIFEST.encode() + b"\n" + json.dumps(manifest).encode()]


class Editions:
    """Puts editions together of the messages of the topic, from its beginning.

    Parameters
    ----------
    make : returns a learner for records of a schema, of the pipeline's settings, that knows nothing
    where : what the topic is called in errors
    """

    def __init__(self, make: Callable[[Schema], StreamLearner], where: str) -> None:
        self.newest: Edition | None = None
        self._make = make
        self._where = where
        self._chunks: dict[str, bytes] = {}
        self._tables: dict[str, tuple[list[Any], Arrays]] = {}

    def take(self, messages: Iterable[tuple[bytes | None, bytes]], *, are_all: bool = True) -> None:
        """Take in messages, keys and what stands under them; `newest` is the last whole edition.

        Raises StateError where that cannot be put together and there is no later one, as the
        messages `are_all` there are: of an outdated one compaction leaves parts.
        """
        manifest: Mapping[str, Any] | None = None
        chunks: dict[str, list[bytes]] = {}
        for key, value in messages:
            name = (key or b"").decode(errors="replace")
            if name != MANIFEST:
                self._chunks[name] = value
                continue
            manifest = self._manifest(value)
            # Those of now: the ones that follow are of the next edition.
            chunks = {
                table: [self._chunks.get(f"{table}/{i}", b"") for i in range(n)]
                for table, (n, _) in manifest["tables"].items()
            }
        if manifest is None:
            return
        try:
            self.newest = self._edition(manifest, chunks)
        except StateError:
            if are_all:
                raise

    def _manifest(self, value: bytes) -> dict[str, Any]:
        try:
            return dict(json.loads(value))
        except ValueError as error:
            raise StateError(
                f"{self._where} holds what is no manifest of a learner: {error}; only the learner "
                "may write there"
            ) from error

    def _edition(self, manifest: Mapping[str, Any], chunks: dict[str, list[bytes]]) -> Edition:
        tables = {}
        for table, named in manifest["tables"].items():
            known = self._tables.get(table)
            if known is not None and known[0] == named:
                tables[table] = known
            else:
                tables[table] = named, self._table(table, named[1], b"".join(chunks[table]))
        self._tables = tables
        schema = Schema.from_json(manifest["schema"])
        learner = self._make(schema)
        learner.thaw({name: a for _, arrays in tables.values() for name, a in arrays.items()})
        return Edition(int(manifest["edition"]), schema, learner)

    def _table(self, table: str, digest: str, blob: bytes) -> Arrays:
        if hashlib.blake2b(blob, digest_size=16).hexdigest() != digest:
            raise StateError(
                f"{self._where}: the table {table!r} of the newest edition is not whole: messages "
                "of it were deleted; start `streamboost learn` again, which writes it anew"
            )
        try:
            return unseal(f"the table {table!r} of {self._where}", blob, kind=_KIND)[0]
        except ModelFileError as error:
            raise StateError(str(error)) from error


def _tables(arrays: Arrays) -> dict[str, Arrays]:
    """Return arrays by the tables they belong to, which are named by the first words of theirs."""
    tables: dict[str, Arrays] = {}
    for name, array in arrays.items():
        words = name.split(".")
        table = ".".join(words[: 2 if words[0] == "features" else 1])
        tables.setdefault(table, {})[name] = array
    return tables
