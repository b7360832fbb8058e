"""Which source reads a file: its name tells."""

import os
from collections.abc import Collection
from pathlib import Path

from streamboost.connectors.base import Source
from streamboost.connectors.files.csv import CsvSource
from streamboost.connectors.files.json_lines import JsonLinesSource, is_compressed
from streamboost.connectors.files.parquet import ParquetSource
from streamboost.connectors.files.stdin import StdinSource
from streamboost.errors import ConfigurationError

__all__ = ["STDIN", "file_source", "is_compressed", "is_json_lines", "is_parquet", "unit_of"]

STDIN = "-"
"""The path that stands for standard input."""

_CSV = {".csv"}
_PARQUET = {".parquet", ".pq"}


def file_source(
    path: str | os.PathLike[str],
    text: Collection[str] = ("id",),
    max_bytes: int = 1_000_000,
    follow: bool = False,
    *,
    on_gap: str = "stop",
) -> Source:
    """Return the source for `path`: standard input for "-", CSV, Parquet, or else JSON Lines.

    CSV and JSON Lines may be compressed: `.csv.gz`, `.jsonl.gz`. `text` names the columns of a
    Parquet file whose values are given as text, as all cells of CSV are; `follow` says that lines
    are still being added to a file; `on_gap` is what to do after a rotation that lost lines
    (`JsonLinesSource`).

    >>> type(file_source("records.csv.gz")).__name__, type(file_source("labels.jsonl")).__name__
    ('CsvSource', 'JsonLinesSource')
    """
    if os.fspath(path) == STDIN:
        return StdinSource(max_bytes)
    ending = _ending(path)
    if ending in _PARQUET:
        if is_compressed(path):
            raise ConfigurationError(
                f"{os.fspath(path)}: a Parquet file is compressed within: unpack it, and name it "
                "without .gz"
            )
        return ParquetSource(path, text, max_bytes)
    if ending in _CSV:
        return CsvSource(path, max_bytes, follow, on_gap=on_gap)
    return JsonLinesSource(path, max_bytes, follow, on_gap=on_gap)


def is_parquet(path: str) -> bool:
    """Tell whether `path` names a Parquet file."""
    return _ending(path) in _PARQUET


def is_json_lines(path: str) -> bool:
    """Tell whether `path` names a file of JSON Lines, as any does that is no table.

    >>> is_json_lines("labels.jsonl"), is_json_lines("labels.csv"), is_json_lines("-")
    (True, False, False)
    """
    return path != STDIN and _ending(path) not in _CSV | _PARQUET


def unit_of(path: str) -> str:
    """Return what the positions in `path` count."""
    if path == STDIN:
        return "lines"
    return "rows" if is_parquet(path) else "bytes"


def _ending(path: str | os.PathLike[str]) -> str:
    """Return what a file's name ends in, but for the `.gz` of one that is compressed."""
    name = Path(path)
    return Path(name.stem if is_compressed(name) else name).suffix.lower()
