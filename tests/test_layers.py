"""Imports point down, and the cheap commands stay cheap."""

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What each part may import of the project; what is not here (errors, storage) serves everybody.
BELOW = {
    "kernels": set(),
    "trees": {"kernels"},
    "boosting": {"trees", "kernels"},
    "active": set(),
    "stream": {"boosting", "active"},
    "adapters": {"stream", "boosting"},
    "connectors": set(),
    "pipelines": {"connectors", "stream", "active", "boosting"},
}
FOREIGN = {
    "kafka": {"connectors"},
    "river": {"stream", "adapters", "connectors"},
    "numba": {"kernels"},
    "pyarrow": {"connectors"},
} | {web: {"pipelines"} for web in ("fastapi", "nicegui", "starlette", "uvicorn")}
OWNERS = {"pyarrow": "parquet"}
"""The connector's file that imports a library, where it is not called the same."""


def modules():
    for part in BELOW:
        folder = ROOT / part if part in ("connectors", "pipelines") else ROOT / "streamboost" / part
        for path in sorted(folder.rglob("*.py")):
            yield part, path


@cache
def imported(path):
    """Every module a file imports, at its top or inside a function."""
    return tuple(_imported(path))


def _imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where they point"
            yield node.module or ""


@pytest.mark.parametrize("part", BELOW)
def test_imports_point_down(part):
    for owner, path in modules():
        for name in imported(path):
            words = name.split(".")
            if owner == part and words[0] == "streamboost" and len(words) > 1:
                target = words[1]
                allowed = target not in BELOW or target == part or target in BELOW[part]
                assert allowed, f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("library", FOREIGN)
def test_client_libraries_stay_in_their_own_places(library):
    for part, path in modules():
        if library in {name.split(".")[0] for name in imported(path)}:
            assert part in FOREIGN[library], f"{path.relative_to(ROOT)} imports {library}"
            if part == "connectors":
                assert path.stem.split("_")[0] == OWNERS.get(library, library)
            if part == "pipelines":
                assert path.parent.name == "service", f"{path.relative_to(ROOT)} imports {library}"


def test_the_walk_sees_every_module():
    seen = {path for _, path in modules()}
    top = {ROOT / "streamboost" / f for f in ("__init__.py", "errors.py", "storage.py")}
    every = {
        path
        for folder in ("streamboost", "connectors", "pipelines")
        for path in (ROOT / folder).rglob("*.py")
        if not any(parent.is_symlink() for parent in path.parents)
    }
    assert seen | top == every


def loaded_by(*command):
    """Run Python in a new process and return the modules it loaded."""
    code = f"import sys; {'; '.join(command)}; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return {name.split(".")[0] for name in done.stdout.splitlines()}


def test_importing_the_package_loads_nothing_heavy():
    heavy = {"numba", "river", "sklearn", "kafka", "numpy", "pydantic"}
    assert not heavy & loaded_by("import streamboost")


def test_importing_the_stream_learner_compiles_and_loads_nothing_heavy():
    heavy = {"numba", "river", "scipy", "sklearn", "kafka", "pydantic"}
    assert not heavy & loaded_by("import streamboost.stream")


def test_asking_for_help_loads_nothing_heavy():
    heavy = {"numba", "river", "sklearn", "kafka", "fastapi", "nicegui"}
    run = (
        "from streamboost.pipelines.cli.__main__ import main",
        "sys.argv = ['streamboost', '--help']",
        "sys.stdout = sys.stderr",
        "\ntry: main()\nexcept SystemExit: pass\nsys.stdout = sys.__stdout__\n",
    )
    assert not heavy & loaded_by("; ".join(run[:3]) + run[3] + "pass")
