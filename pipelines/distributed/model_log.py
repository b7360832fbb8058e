"""Model log: publishes model snapshots to a compacted topic, and loads them in scorers.

A snapshot is the learner's scoring state (`StreamLearner.export_scoring_state`), split into tables.
Unchanged tables are not written again. Each table is split into chunks with separate keys, of
which compaction keeps the newest. The manifest is written last, and names the tables of the
snapshot with their digests.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ModelFileError, StateError
from streamboost.learner.learner import StreamLearner
from streamboost.storage import Arrays, decode_sealed_file, encode_sealed_file

CHUNK = 512 * 1024
"""Maximum size of one message in bytes; the default limit of brokers is one million."""

MANIFEST = "manifest"

_KIND = "table"


class _Manifest(msgspec.Struct, frozen=True):
    """Manifest of a snapshot.

    `edition` is the learner batch that published the snapshot, and `schema` the schema as JSON.
    `tables` maps the name of a table (see `SnapshotEncoder`) to its number of chunks and its hash.
    """

    edition: int
    schema: str
    tables: dict[str, tuple[int, str]]


@dataclass(frozen=True, slots=True, eq=False)
class ModelSnapshot:
    """Model snapshot for scoring; `number` is the learner batch that published the snapshot."""

    number: int
    schema: Schema
    learner: StreamLearner

    @property
    def version(self) -> int:
        """Version of the committee; 0 before the first committee."""
        committee = self.learner.committee
        return committee.version if committee else 0


@dataclass(slots=True)
class SnapshotEncoder:
    """Encoder of model snapshots as messages.

    The arrays of a snapshot are grouped into tables by the prefix of their names. A table whose
    content is the same as in the previous snapshot is not sent again.
    """

    _sent: dict[str, tuple[int, str]] = field(default_factory=dict)

    def encode_snapshot(self, sequence: int, schema: Schema, learner: StreamLearner) -> list[bytes]:
        """Return a snapshot of `learner` as messages; each has a key, a newline and a value.

        `sequence` is the number of the learner's batch, by which scorers identify the snapshot.
        """
        messages: list[bytes] = []
        named: dict[str, tuple[int, str]] = {}
        for table, arrays in _group_arrays_by_table(learner.export_scoring_state()).items():
            blob = encode_sealed_file(arrays, kind=_KIND)
            chunks = [blob[i : i + CHUNK] for i in range(0, len(blob), CHUNK)]
            named[table] = len(chunks), hashlib.blake2b(blob, digest_size=16).hexdigest()
            if self._sent.get(table) != named[table]:
                messages += [b"%s/%d\n" % (table.encode(), i) + c for i, c in enumerate(chunks)]
        self._sent = named
        manifest = _Manifest(sequence, schema.to_json(), named)
        return [*messages, MANIFEST.encode() + b"\n" + msgspec.json.encode(manifest)]


class ModelLogReader:
    """Reader that assembles model snapshots from the messages of the topic.

    Parameters
    ----------
    create_learner : returns an untrained learner for a schema, with the settings of the pipeline
    where : name of the topic in errors
    """

    def __init__(self, create_learner: Callable[[Schema], StreamLearner], where: str) -> None:
        self.newest: ModelSnapshot | None = None
        self._create_learner = create_learner
        self._where = where
        self._chunks: dict[str, bytes] = {}
        self._tables: dict[str, tuple[tuple[int, str], Arrays]] = {}

    def read(
        self, messages: Iterable[tuple[bytes | None, bytes]], *, is_complete: bool = True
    ) -> None:
        """Read messages (pairs of key and value); set `newest` to the last complete snapshot.

        `is_complete` is whether the messages reach the end of the topic. If so, StateError is
        raised for an incomplete snapshot. If not, an incomplete snapshot is skipped, as compaction
        removes parts of outdated snapshots.
        """
        manifest: _Manifest | None = None
        fault: StateError | None = None
        chunks: dict[str, list[bytes]] = {}
        for key, value in messages:
            name = (key or b"").decode(errors="replace")
            if name != MANIFEST:
                self._chunks[name] = value
                continue
            try:
                manifest, fault = self._decode_manifest(value), None
            except StateError as error:  # a later manifest replaces this one
                fault = error
                continue
            # Chunks as of this manifest: later chunks belong to the next snapshot.
            chunks = {
                table: [self._chunks.get(f"{table}/{i}", b"") for i in range(n)]
                for table, (n, _) in manifest.tables.items()
            }
        if fault is not None:
            raise fault
        if manifest is None:
            return
        try:
            self.newest = self._build_snapshot(manifest, chunks)
        except StateError:
            if is_complete:
                raise

    def _decode_manifest(self, value: bytes) -> _Manifest:
        try:
            return msgspec.json.decode(value, type=_Manifest)
        except msgspec.MsgspecError as error:
            raise StateError(
                f"{self._where} has an invalid manifest: {error}; only the learner may write to "
                "this topic: restart `streamboost learn`, which writes all tables"
            ) from error

    def _build_snapshot(self, manifest: _Manifest, chunks: dict[str, list[bytes]]) -> ModelSnapshot:
        tables = {}
        for table, named in manifest.tables.items():
            known = self._tables.get(table)
            if known is not None and known[0] == named:
                tables[table] = known
            else:
                tables[table] = named, self._decode_table(table, named[1], b"".join(chunks[table]))
        self._tables = tables
        schema = Schema.from_json(manifest.schema)
        learner = self._create_learner(schema)
        learner.load_scoring_state(
            {name: a for _, arrays in tables.values() for name, a in arrays.items()}
        )
        if learner.features is not None:
            learner.features.check_encoders_unchanged()
        return ModelSnapshot(manifest.edition, schema, learner)

    def _decode_table(self, table: str, digest: str, blob: bytes) -> Arrays:
        if hashlib.blake2b(blob, digest_size=16).hexdigest() != digest:
            raise StateError(
                f"{self._where}: the table {table!r} of the newest snapshot is incomplete, as "
                "messages were deleted: restart `streamboost learn`, which writes all tables"
            )
        try:
            return decode_sealed_file(f"the table {table!r} of {self._where}", blob, kind=_KIND)[0]
        except ModelFileError as error:
            raise StateError(str(error)) from error


def _group_arrays_by_table(arrays: Arrays) -> dict[str, Arrays]:
    """Group arrays by table; the table is the prefix of the array name, as in "table.array"."""
    tables: dict[str, Arrays] = {}
    for name, array in arrays.items():
        words = name.split(".")
        table = ".".join(words[: 2 if words[0] in ("features", "young") else 1])
        tables.setdefault(table, {})[name] = array
    return tables
