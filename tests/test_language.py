"""Check of idioms that `make lint` runs over texts."""

import importlib.util
from pathlib import Path

import pytest

import streamboost

CHECK = Path(streamboost.__file__).parents[1] / ".ci" / "language.py"


@pytest.fixture
def found_in(tmp_path, monkeypatch):
    """A function that gives the findings in a file of this name and text."""
    if not CHECK.is_file():
        pytest.skip("the check comes with a clone, not with the package")
    spec = importlib.util.spec_from_file_location("language", CHECK)
    check = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check)
    monkeypatch.setattr(check, "ROOT", tmp_path)

    def find(name, text):
        (tmp_path / name).write_text(text)
        return list(check.findings(tmp_path / name))

    return find


@pytest.mark.parametrize(
    "text",
    [
        '"""Loop that goes on after errors."""\n',
        "x = 1  # read beside the others\n",
        'raise ValueError(f"{x} stands in {y}")\n',
        '"""What a batch holds."""\n',
    ],
)
def test_idioms_and_question_openings_are_found(found_in, text):
    (line,) = found_in("a.py", text)
    assert line.startswith("a.py:1: ")


@pytest.mark.parametrize(
    "text",
    [
        "beside = apart + stands\n",
        '"""Loop that continues after errors."""\n',
        'f"{beside} is {apart}"\n',
        '"""The besides of a standard."""\n',
    ],
)
def test_code_and_plain_words_pass(found_in, text):
    assert found_in("a.py", text) == []


def test_pages_are_checked_outside_code(found_in):
    page = "The loop goes on.\n\n```\ngoes on\n```\n\nUse `anew` and [this](beside.md).\n"
    (line,) = found_in("a.md", page)
    assert line.startswith("a.md:1: 'goes on': write continue")
