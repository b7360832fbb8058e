"""The file of results: each table as it was measured last, with the day and the commit.

`RESULTS.md` beside this file is Markdown, to be read as it is: a heading, a line that says when and
at which commit, the table, and what is to be said of it. Whoever measures a table replaces its
section; those of other tables stay.
"""

import re
import subprocess
from datetime import date
from functools import cache
from pathlib import Path

__all__ = ["RESULTS", "commit_of", "keep", "read", "section"]

RESULTS = Path(__file__).parent / "RESULTS.md"
HEAD = """# The papers' tables: published beside measured

Written by `python -m benchmarks.paper_tables`, a table at a time; each module states its protocol.
An empty cell is one of which the paper gives no number.
"""


def keep(title, columns, rows, notes, *, path=RESULTS, commit=None):
    """Put a table into the file, in the place of the one of that title."""
    told = read(path)
    told[title] = section(columns, rows, notes, commit or commit_of(path.parent))
    text = "\n".join([HEAD, *(f"## {name}\n\n{body}\n" for name, body in sorted(told.items()))])
    path.write_text(text, encoding="utf-8")


def read(path=RESULTS):
    """Return what the file says under each title; nothing where there is no file."""
    if not path.exists():
        return {}
    _, *parts = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {title: body.strip() for title, _, body in (part.partition("\n") for part in parts)}


def section(columns, rows, notes, commit):
    """Return a table and its notes as Markdown. A row of None is left out, a cell of None empty."""
    cells = [columns, ["---"] * len(columns), *(row for row in rows if row is not None)]
    lines = ["| " + " | ".join(map(_text, row)) + " |" for row in cells]
    measured = f"Measured {date.today().isoformat()} at {commit}."
    return "\n".join([measured, "", *lines, *([""] if notes else []), *(f"- {n}" for n in notes)])


@cache
def commit_of(folder):
    """Return the commit that was checked out at the first call, and whether files differed."""

    def git(*arguments):
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "*.py")
    return f"commit {git('rev-parse', '--short=10', 'HEAD')}" + (", changed" if changed else "")


def _text(cell):
    return "" if cell is None else str(cell).replace("|", "\\|")
