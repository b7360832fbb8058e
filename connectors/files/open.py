"""Selection of the source for a file, by the extension of its name."""

import os
from collections.abc import Collection
from pathlib import Path

from streamboost.connectors.base import Source
from streamboost.connectors.files.csv import CsvSource
from streamboost.connectors.files.json_lines import JsonLinesSource, is_compressed
from streamboost.connectors.files.parquet import ParquetSource
from streamboost.connectors.files.stdin import StdinSource
from streamboost.errors import ConfigurationError

__all__ = ["STDIN", "file_source", "is_compressed", "is_json_lines", "is_parquet", "position_unit"]

STDIN = "-"
"""Path for standard input."""

_CSV = {".csv"}
_PARQUET = {".parquet", ".pq"}


def file_source(
    path: str | os.PathLike[str],
    text: Collection[str] = ("id",),
    max_bytes: int = 1_000_000,
    follow: bool = False,
    *,
    on_data_loss: str = "fail",
) -> Source:
    """Return the source for the type of file `path`; "-" is standard input.

    The extension selects CSV or Parquet; other files are JSON Lines.

    CSV and JSON Lines may be compressed: `.csv.gz`, `.jsonl.gz`. `text` names the columns of a
    Parquet file whose values are returned as text, as all cells of CSV are. `follow` means that
    lines are still being appended. `on_data_loss` is the reaction to lost lines after a rotation
    (`JsonLinesSource`).

    >>> type(file_source("records.csv.gz")).__name__, type(file_source("labels.jsonl")).__name__
    ('CsvSource', 'JsonLinesSource')
    """
    if os.fspath(path) == STDIN:
        return StdinSource(max_bytes)
    ending = _file_extension(path)
    if ending in _PARQUET:
        if is_compressed(path):
            raise ConfigurationError(
                f"{os.fspath(path)}: a Parquet file is compressed within: unpack it, and name it "
                "without .gz"
            )
        return ParquetSource(path, text, max_bytes)
    if ending in _CSV:
        return CsvSource(path, max_bytes, follow, on_data_loss=on_data_loss)
    return JsonLinesSource(path, max_bytes, follow, on_data_loss=on_data_loss)


def is_parquet(path: str) -> bool:
    """Return whether `path` names a Parquet file."""
    return _file_extension(path) in _PARQUET


def is_json_lines(path: str) -> bool:
    """Return whether `path` names a JSON Lines file, the default for unknown extensions.

    >>> is_json_lines("labels.jsonl"), is_json_lines("labels.csv"), is_json_lines("-")
    (True, False, False)
    """
    return path != STDIN and _file_extension(path) not in _CSV | _PARQUET


def position_unit(path: str) -> str:
    """Return the unit of offsets in the file at `path`: "lines", "rows" or "bytes"."""
    if path == STDIN:
        return "lines"
    return "rows" if is_parquet(path) else "bytes"


def _file_extension(path: str | os.PathLike[str]) -> str:
    """Return the extension of a file name, without the `.gz` of a compressed file."""
    name = Path(path)
    return Path(name.stem if is_compressed(name) else name).suffix.lower()
