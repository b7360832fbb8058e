"""Benchmarks as scripts: each states its purpose and how to start it."""

import ast
import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import record
from benchmarks.paper_tables import results

ROOT = Path(__file__).parents[1]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "benchmarks").rglob("*.py"))
}
HELPERS = {
    "benchmarks",
    "benchmarks.few_labels",
    "benchmarks.data",
    "benchmarks.intervals",
    "benchmarks.lookers",
    "benchmarks.moa",
    "benchmarks.opening",
    "benchmarks.paper_tables.report",
    "benchmarks.paper_tables.results",
    "benchmarks.pipeline_steps",
    "benchmarks.plots",
    "benchmarks.predicting",
    "benchmarks.standing_pool",
    "benchmarks.tabs",
}
STARTED = [name for name in FILES if name.count(".") == 1 and name not in HELPERS]
MODULES = [name for name, path in FILES.items() if path.stem != "__init__"]


def docstring(name):
    return ast.get_docstring(ast.parse(FILES[name].read_text())) or ""


def test_the_steps_whose_time_is_taken_are_there():
    from benchmarks.pipeline_steps import STEPS

    assert [step for step, (owner, name) in STEPS.items() if not hasattr(owner, name)] == []


@pytest.mark.parametrize("name", FILES)
def test_every_module_says_in_a_line_what_it_is_for(name):
    assert docstring(name).partition("\n")[0].endswith(".")


@pytest.mark.parametrize("name", STARTED)
def test_every_benchmark_says_how_it_is_started(name):
    assert f"python -m {name}" in docstring(name)


@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_imports_and_has_a_main(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("benchmarks", "streamboost"):
            raise
        pytest.skip(f"{error.name} comes with the extra [bench]")
    assert hasattr(module, "main") != (name in HELPERS)


def titles():
    """The titles of the papers' tables, read without what it takes to measure them."""
    for name, path in FILES.items():
        if name.startswith("benchmarks.paper_tables."):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TITLES":
                    yield from ast.literal_eval(node.value)


def test_the_results_name_every_table_of_the_papers():
    assert set(results.read()) == set(titles())
    assert len(list(titles())) == 8


@pytest.mark.parametrize("title", list(titles()))
def test_a_table_of_results_says_when_it_was_measured_and_is_whole(title):
    body = results.read()[title].splitlines()
    assert re.fullmatch(r"Measured \d{4}-\d\d-\d\d at commit [0-9a-f]{10}(, changed)?\.", body[0])
    rows = [re.split(r"(?<!\\)\|", line) for line in body if line.startswith("|")]
    assert len(rows) > 3
    assert {len(row) for row in rows} == {len(rows[0])}
    assert any(re.search(r"\d", cell) for row in rows[2:] for cell in row)


def test_a_table_measured_again_takes_the_place_of_the_one_before(tmp_path):
    path = tmp_path / "RESULTS.md"
    for figure in (1, 2):
        results.keep("B", ["a|b", "n"], [("x", figure), None, ("y", None)], ["said"],
                     path=path, commit="commit 0123456789")  # fmt: skip
    results.keep("A", ["a"], [("z",)], [], path=path, commit="commit 0123456789")
    told = results.read(path)
    assert list(told) == ["A", "B"]
    measured, _, *lines = told["B"].splitlines()
    assert measured.endswith(" at commit 0123456789.")
    assert lines == ["| a\\|b | n |", "| --- | --- |", "| x | 2 |", "| y |  |", "", "- said"]


@pytest.mark.parametrize("name", ["activeml split", "activeml quantile filter"])
def test_a_strategy_in_bounds_buys_what_it_chooses_and_nothing_that_was_not_earned(name):
    pytest.importorskip("skactiveml", reason="it comes with the extra [bench]")
    from benchmarks.activeml import InBounds

    X = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
    asker, bought = InBounds(name, 0.1, 0), []
    for start in range(0, 300, 10):
        ids = [str(i) for i in range(start, start + 10)]
        bought += [
            int(id) for id in asker.ask(X[start : start + 10], asker.learner.score(X[:10]), ids)
        ]
    assert all(n + 1 <= (i + 1) / 10 for n, i in enumerate(bought))
    assert 15 <= len(bought) <= 30


def test_the_table_of_speed_is_made_from_the_record():
    recorded = json.loads((ROOT / "benchmarks" / "record.json").read_text())
    assert set(recorded["figures"]) == set(record.FIGURES)
    page = (ROOT / "docs" / "pages" / "figures" / "benchmarks.md").read_text()
    assert record.page(recorded) in page


def test_a_record_names_what_became_slower_beyond_its_noise():
    def recorded(**quotients):
        figures = {
            name: {"median": quotient, "quotient": quotient, "error": error}
            for name, (quotient, error) in quotients.items()
        }
        return {"figures": figures}

    old = recorded(steady=(1.0, 0.01), slowed=(1.0, 0.01), noisy=(1.0, 0.1), faster=(1.0, 0.01))
    new = recorded(steady=(1.05, 0.01), slowed=(1.2, 0.01), noisy=(1.2, 0.1), faster=(0.5, 0.01))
    slower = [name for name, *_, is_slower in record.differences(new, old) if is_slower]
    assert slower == ["slowed"]
