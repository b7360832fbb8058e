"""Refuse idioms and question openings: python .ci/language.py [FOLDER OR FILE ...].

The script checks docstrings, comments and string literals of Python files, and the text of pages
outside code. In `tests`, string literals are data or quote the product, so only docstrings and
comments are checked. A finding names the file, the line, the idiom and the remedy.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("streamboost", "connectors", "pipelines", "examples", "benchmarks", "docs", "tests")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md")

IDIOMS = {
    r"(?:comes?|came|coming) to(?= (?:an? |the |be |nothing|mean|pass|\d))": "equal, become",
    r"(?:goes|go|going|went) on(?! to the)": "continue",
    r"(?:takes?|took|taking|taken) in(?= |\.|,|;|:|$)": "accept, read",
    r"(?:lets?|letting) go": "release",
    r"(?:stands|stood|standing)\b": "is, is stored",
    r"at hand": "available",
    r"of late": "recent, in the sliding window",
    r"anew": "again",
    r"beside(?!s)": "next to, in addition to",
    r"apart": "separately, distributed",
    r"in step": "aligned",
    r"so many": "n, as many",
    r"(?:told|tells?|telling) of": "reported",
    r"(?:bears?|bearing|borne)\b": "have",
    r"(?:mends?|mended|mending)\b": "fix",
}
OPENINGS = re.compile(r"^(?:What|Who|Whom|Whose|Which|How|Where|When|Why|Whether)\b")


ALLOWED: dict[str, tuple[str, str]] = {
    "docs/build.py": (r"figures/beside-others", "a former address of a page, which redirects"),
    "pipelines/app/recovery.py": (r"\{mend\};", "a variable"),
    "pipelines/config/problems.py": (r'"apart"', "the former value of a key"),
    "pipelines/distributed/scorer.py": (r"^    beside : ", "a parameter"),
}
"""By path: a regular expression of lines that may keep an idiom, and the reason."""

_COMPILED = [(re.compile(rf"\b{idiom}", re.IGNORECASE), remedy) for idiom, remedy in IDIOMS.items()]


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Give the lines of text in a file, with their numbers."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        is_test = path.relative_to(ROOT).parts[0] == "tests"
        docstrings = _docstring_starts(text) if is_test else set()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if is_test and token.type != tokenize.COMMENT and token.start not in docstrings:
                continue
            if token.type in _TEXTS:
                for i, line in enumerate(token.string.splitlines()):
                    yield token.start[0] + i, re.sub(r"\{\w[^{}]*\}", "", line)  # no code
        return
    is_code = False
    for i, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield i, re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


def _docstring_starts(text: str) -> set[tuple[int, int]]:
    """Give the line and column where each string that is a statement of its own starts."""
    return {
        (node.lineno, node.col_offset)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


_TEXTS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def findings(path: Path) -> Iterator[str]:
    """Give what is wrong in a file, a line for each."""
    name = path.relative_to(ROOT).as_posix()
    allowed, _ = ALLOWED.get(name, ("(?!)", ""))
    if path.suffix == ".py":
        opening = OPENINGS.match(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
        if opening:
            yield f"{name}:1: the module docstring begins with {opening[0]!r}: name the thing"
    for number, line in texts_of(path):
        if re.search(allowed, line):
            continue
        for idiom, remedy in _COMPILED:
            if found := idiom.search(line):
                yield f"{name}:{number}: {found[0]!r}: write {remedy}, or another plain word"


def files_of(given: list[str]) -> Iterator[Path]:
    """Give the files to check: those named, else all of the project."""
    for one in map(Path, given or [*FOLDERS, *PAGES]):
        path = one if one.is_absolute() else ROOT / one
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in found if each.suffix in (".py", ".md"))


def main() -> None:
    """Print all findings; fail if there are some."""
    found = [line for path in files_of(sys.argv[1:]) for line in findings(path)]
    print("\n".join(found))
    sys.exit(f"{len(found)} findings: see the terms in CONTRIBUTING.md" if found else 0)


if __name__ == "__main__":
    main()
