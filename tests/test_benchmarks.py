"""Benchmarks can be run alone: each says what it measures, and how it is started."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "benchmarks").rglob("*.py"))
}
HELPERS = {
    "benchmarks",
    "benchmarks.activeml",
    "benchmarks.data",
    "benchmarks.paper_tables.report",
    "benchmarks.pipeline_steps",
    "benchmarks.tabs",
}
STARTED = [name for name in FILES if name.count(".") == 1 and name not in HELPERS]
MODULES = [name for name, path in FILES.items() if path.stem != "__init__"]


def docstring(name):
    return ast.get_docstring(ast.parse(FILES[name].read_text())) or ""


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
