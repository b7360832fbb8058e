"""Sealed files: named arrays and a manifest, in a safetensors file with a checksum.

A safetensors file does not detect a changed bit. So the manifest in its header has the SHA-256 of
all bytes of the file, computed with zeros in the place of the digest. No pickle is ever read.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from streamboost.errors import ModelFileError

FORMAT = "0.3"
"""Version of the layout of sealed files and of the arrays in them; no other version is read."""

Arrays = dict[str, np.ndarray]

_BLANK = "0" * 64

_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""MessagePack prefix of a number that is not finite: a double whose exponent is all ones."""


def pack_json(value: Any) -> np.ndarray:
    """Encode `value` as JSON in a uint8 array, to be stored with other arrays.

    >>> unpack_json(pack_json({"seed": 7}))
    {'seed': 7}
    """
    return np.frombuffer(_encode_json(value), dtype=np.uint8)


def _encode_json(value: Any) -> bytes:
    """Encode `value` as JSON; numbers that are not finite are written as NaN and Infinity.

    msgspec, six times as fast, would write null for these numbers.
    """
    try:
        packed = msgspec.json.encode(value)
        if b"null" not in packed or not _NOT_FINITE.search(msgspec.msgpack.encode(value)):
            return packed
    except (TypeError, ValueError, OverflowError):  # numpy's numbers, broken text, large integers
        pass
    return json.dumps(value, allow_nan=True).encode()


def unpack_json(array: np.ndarray) -> Any:
    """Decode the value from the result of `pack_json`."""
    return json.loads(array.astype(np.uint8).tobytes())


def select_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> Arrays:
    """Return the arrays whose names start with `prefix`, which is removed from the names.

    >>> list(select_prefix({"rows.X": np.zeros(1), "about": np.zeros(1)}, "rows."))
    ['X']
    """
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def write_arrays(
    path: str | os.PathLike[str],
    arrays: Mapping[str, np.ndarray],
    *,
    kind: str,
    manifest: Mapping[str, Any] | None = None,
) -> None:
    """Write `arrays` and `manifest` to a sealed file at `path`, atomically and synced to disk.

    `kind` names the type of the content, such as "committee". `read_arrays` rejects a file of
    another kind.

    Raises
    ------
    ModelFileError
        When the file cannot be written; an older file of that name is kept.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    with replace_atomically(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # `save_file` makes the file readable for its owner alone
        try:
            save_file(_make_contiguous(arrays), temporary, metadata=_make_metadata(kind, manifest))
        except SafetensorError as error:
            raise _make_write_error(path, error) from error
        temporary.chmod(mode)
        with temporary.open("r+b") as file:  # hashed in chunks: checkpoints are large
            digest = hashlib.file_digest(file, "sha256").hexdigest().encode()
            file.seek(0)
            length = int.from_bytes(file.read(8), "little")
            file.seek(8 + file.read(length).index(_BLANK.encode()))
            file.write(digest)


def encode_sealed_file(
    arrays: Mapping[str, np.ndarray], *, kind: str, manifest: Mapping[str, Any] | None = None
) -> bytes:
    """Return the bytes of a sealed file with `arrays` and `manifest`."""
    from safetensors.numpy import save

    blob = save(_make_contiguous(arrays), metadata=_make_metadata(kind, manifest))
    digest = hashlib.sha256(blob).hexdigest().encode()
    return blob.replace(_BLANK.encode(), digest, 1)


def _make_contiguous(arrays: Mapping[str, np.ndarray]) -> Arrays:
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _make_metadata(kind: str, manifest: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the file's metadata, which begins with zeros in the place of the digest."""
    header = {"sha256": _BLANK, "format": FORMAT, "kind": kind, "manifest": dict(manifest or {})}
    return {"streamboost": json.dumps(header)}


def write_bytes(path: str | os.PathLike[str], blob: bytes) -> None:
    """Write `blob` to the file `path`, atomically and synced to disk.

    Raises
    ------
    ModelFileError
        When the file cannot be written; an older file of that name is kept.
    """
    with replace_atomically(path) as temporary:
        temporary.write_bytes(blob)


@contextmanager
def replace_atomically(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a temporary file, which replaces `path` at the end of the context.

    The temporary file is synced to disk before it replaces `path`. So a reader finds either the old
    or the complete new file. Raises ModelFileError if the file cannot be written.
    """
    path = Path(path)
    if not path.name or path.is_dir():
        raise _make_write_error(path, "it is a folder")
    if path.exists() and not path.is_file():
        raise _make_write_error(path, "it is a device or pipe, which would be replaced")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        sync_to_disk(temporary)
        temporary.replace(path)
    except OSError as error:
        raise _make_write_error(path, error.strerror or error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    sync_to_disk(path.parent)


def sync_to_disk(path: Path) -> None:
    """Sync a file or folder to disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _make_write_error(path: str | os.PathLike[str], reason: object) -> ModelFileError:
    return ModelFileError(f"{path}: cannot be written: {reason}; name a place that can")


def read_arrays(path: str | os.PathLike[str], *, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the manifest of the sealed file at `path`.

    Raises
    ------
    ModelFileError
        When the file is missing, cut short, changed, a pickle, or of another kind or format.
    """
    try:
        blob = Path(path).read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from error
    return decode_sealed_file(path, blob, kind=kind)


def decode_sealed_file(
    path: str | os.PathLike[str], blob: bytes, *, kind: str
) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the manifest of `blob`, the bytes of a sealed file.

    Error messages name `path`. Raises ModelFileError as `read_arrays` does.
    """
    from safetensors.numpy import load

    header = _read_header(path, blob)
    digest = str(header.get("sha256")).encode()
    # Hashed in parts: a copy of a large file would block the other threads.
    start = blob.find(digest)
    hashed = hashlib.sha256(blob[:start] + _BLANK.encode())
    hashed.update(memoryview(blob)[start + len(digest) :])
    if start < 0 or hashed.hexdigest().encode() != digest:
        raise ModelFileError(
            f"{path}: the content does not match its SHA-256: the file was changed or damaged "
            "after it was written; restore it from a copy"
        )
    if header["format"] != FORMAT:
        raise ModelFileError(
            f"{path}: file format {header['format']!r} is not supported, this release reads "
            f"{FORMAT!r}; save the model again, or start the pipeline with an empty state folder"
        )
    if header["kind"] != kind:
        raise ModelFileError(f"{path}: a file of kind {header['kind']!r}, not {kind!r}")
    return load(blob), header["manifest"]


def _read_header(path: str | os.PathLike[str], blob: bytes) -> dict[str, Any]:
    # The length may begin with a pickle's first byte, but the header's text begins with a brace.
    if blob[:1] == b"\x80" and blob[-1:] == b"." and blob[8:9] != b"{":
        raise ModelFileError(f"{path}: this is a pickle, and pickles are never read; save it again")
    length = int.from_bytes(blob[:8], "little")
    if len(blob) < 8 or len(blob) < 8 + length:
        raise ModelFileError(
            f"{path}: truncated, or not a streamboost file: {len(blob)} bytes, and its header "
            "alone says more; restore it from a copy"
        )
    try:
        outer = json.loads(blob[8 : 8 + length])
        header = dict(json.loads(outer.pop("__metadata__")["streamboost"]))
        end = 8 + length + max((t["data_offsets"][1] for t in outer.values()), default=0)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFileError(
            f"{path}: not a streamboost file, or its header is damaged; restore it from a copy"
        ) from error
    if len(blob) != end:
        word = "truncated" if len(blob) < end else "too long"
        raise ModelFileError(f"{path}: {word}: {len(blob)} bytes where its header says {end}")
    return header
