"""File of results: the newest measurement of each table, with the day and the commit.

`RESULTS.md` in the same folder is Markdown. A section has a heading, a line with the day and the
commit, the table and notes. A new measurement of a table replaces its section and leaves the other
sections unchanged.
"""

import re
import subprocess
from datetime import date
from functools import cache
from pathlib import Path

__all__ = ["RESULTS", "commit_of", "keep", "read", "section"]

RESULTS = Path(__file__).parent / "RESULTS.md"
HEAD = """# The papers' tables: published and measured

`python -m benchmarks.paper_tables` writes this file, a table at a time. Each module states its
protocol. An empty cell means that the paper gives no number.
"""


def keep(title, columns, rows, notes, *, path=RESULTS, commit=None):
    """Write a table to the file, and replace the section of the same title."""
    told = read(path)
    told[title] = section(columns, rows, notes, commit or commit_of(path.parent))
    text = "\n".join([HEAD, *(f"## {name}\n\n{body}\n" for name, body in sorted(told.items()))])
    path.write_text(text, encoding="utf-8")


def read(path=RESULTS):
    """Return the body of each section by title, or an empty dict without the file."""
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
