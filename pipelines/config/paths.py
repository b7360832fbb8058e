"""What a file that is read cannot be."""

import os
from pathlib import Path

from streamboost.connectors.files.open import STDIN, is_parquet
from streamboost.pipelines.config.problems import Problem
from streamboost.pipelines.config.sections import FilesInput, FilesOutput, Sections

__all__ = ["check_files"]


def check_files(sections: Sections, folder: Path) -> list[Problem]:
    """Return what is wrong with the files that are read."""
    problems = []
    for name in ("source", "labels"):
        section = getattr(sections, name)
        if isinstance(section, FilesInput) and section.follow and is_parquet(section.path):
            text = "a Parquet file is complete: nothing is added to it; leave this key out"
            problems.append(Problem(name, "follow", text))
    known = sections.bootstrap.path
    if known == STDIN:
        text = "must be a file, which a replay can read again, and is standard input"
        problems.append(Problem("bootstrap", "path", text))
    for name in ("predictions", "requests", "dead_letters"):
        section = getattr(sections, name)
        if not isinstance(section, FilesOutput):
            continue
        if section.path == STDIN:
            problems.append(Problem(name, "path", 'must be a file, and is "-"'))
        elif known and _same(folder, known, section.path):
            text = "this is also the place of [bootstrap]: give each its own"
            problems.append(Problem(name, None, text))
    return problems


def _same(folder: Path, one: str, other: str) -> bool:
    places = {os.path.realpath(folder / os.path.expanduser(path)) for path in (one, other)}
    return len(places) == 1
