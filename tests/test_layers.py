"""Import layers: each package imports lower layers only, and light commands import little."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What each part may import of the project; what is not here (errors, storage) serves everybody.
BELOW = {
    "kernels": set(),
    "trees": {"kernels"},
    "export": {"trees", "features", "encoders"},
    "boosting": {"export", "trees", "kernels"},
    "query": {"kernels"},
    "encoders": set(),
    "features": {"encoders"},
    "evaluation": {"query", "boosting", "kernels", "features"},
    "stacking": {"boosting", "kernels", "features"},
    "learner": {"stacking", "query", "evaluation", "boosting", "kernels", "features", "encoders"},
    "dask": {"boosting", "trees"},
    "spark": {"boosting", "features"},
    "adapters": {"learner", "stacking", "evaluation", "boosting", "query", "features"},
    "connectors": {"features"},
    "pipelines": {
        "connectors",
        "encoders",
        "export",
        "features",
        "learner",
        "stacking",
        "evaluation",
        "query",
        "boosting",
    },
}
ROOMS = (
    {"cli"},
    {"demo"},
    {"app"},
    {"dashboard"},
    {"service", "label_studio"},
    {"status"},
    {"monitoring"},
    {"distributed"},
    {"runner"},
    {"models"},
    {"config"},
    {"state"},
    {"shutdown"},
)
"""The rooms of pipelines: each imports itself and those further down."""

CONCRETE = {path.stem for path in (ROOT / "connectors").iterdir()} - {
    *("__init__", "__pycache__", "base", "messages"),
}
NEVER = {
    **{f"connectors.{name}": ["features"] for name in sorted(CONCRETE - {"oracle"})},
    "pipelines.runner": [f"connectors.{name}" for name in CONCRETE],
    "pipelines.service": ["pipelines.runner", "connectors.kafka"],
    "pipelines.dashboard": ["pipelines.runner", "connectors.kafka"],
    "pipelines.label_studio": ["pipelines.runner", "connectors.kafka"],
    "pipelines.status.file": ["pipelines.runner"],
    "pipelines.status.reader": ["pipelines.runner"],
    "boosting.costs": ["boosting.log_loss", "boosting.reweighting"],
    "boosting.log_loss": ["boosting.costs", "boosting.reweighting"],
    "boosting.reweighting": ["boosting.costs", "boosting.log_loss"],
}
"""What some places do not import although it lies further down."""

EXCEPTIONS: set[tuple[str, str]] = set()
"""Who imports what against these rules; each to be taken out of here once it does not."""

FOREIGN = {
    "confluent_kafka": {"connectors/kafka"},
    "dask": {"streamboost/dask"},
    "distributed": {"streamboost/dask"},
    "fastavro": {"connectors/kafka"},
    "fsspec": {"pipelines/state"},
    "kafka": {"connectors/kafka"},
    "narwhals": {"streamboost/adapters", "streamboost/boosting"},
    "numba": {"streamboost/kernels"},
    "onnx": {"streamboost/export"},
    "onnxruntime": {"streamboost/encoders"},
    "pyarrow": {"connectors/files", "streamboost/spark"},
    "pyspark": {"streamboost/spark"},
    "river": {"connectors/river.py", "streamboost/adapters", "streamboost/learner"},
    "tokenizers": {"streamboost/encoders"},
    "typer": {"pipelines/cli"},
} | {
    web: {"pipelines/service", "pipelines/dashboard", "pipelines/app"}
    for web in ("fastapi", "nicegui", "starlette", "uvicorn")
}


@cache
def modules():
    """Every module of the project by its name, and its file."""
    found = {}
    for folder in ("streamboost", "connectors", "pipelines"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if any(parent.is_symlink() for parent in path.parents):
                continue
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if folder == "streamboost" else ("streamboost", *parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


@cache
def imported(path, at_the_top=False):
    """Every module a file imports; `at_the_top`: when it is imported itself."""
    nodes = ast.parse(path.read_text()).body
    names = set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where they point"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in modules() else node.module for name in whole}
        elif not at_the_top or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            nodes += node.orelse if at_the_top and is_for_types else ast.iter_child_nodes(node)
    return frozenset(names)


def imports_of(place):
    """Every import of the project's own by a module or folder of streamboost, both by name."""
    for name, path in modules().items():
        if _is_in(name, place):
            for target in imported(path):
                pair = name.removeprefix("streamboost."), target.removeprefix("streamboost.")
                if target.startswith("streamboost.") and pair not in EXCEPTIONS:
                    yield pair


def _is_in(name, place):
    return f"{name}.".startswith(f"streamboost.{place}.")


@pytest.mark.parametrize("part", BELOW)
def test_imports_point_down(part):
    for name, target in imports_of(part):
        other = target.split(".")[0]
        assert other not in BELOW or other == part or other in BELOW[part], f"{name}: {target}"


def test_every_room_of_pipelines_has_its_place():
    inside = [name.split(".") for name in modules() if _is_in(name, "pipelines")]
    there = {parts[2] for parts in inside if len(parts) > 2}
    assert there == set.union(*ROOMS)


@pytest.mark.parametrize("room", sorted(set.union(*ROOMS)))
def test_a_room_imports_those_below_alone(room):
    storey = next(number for number, rooms in enumerate(ROOMS) if room in rooms)
    below = set().union(*ROOMS[storey + 1 :], {room})
    for name, target in imports_of(f"pipelines.{room}"):
        part, _, rest = target.partition(".")
        assert part != "pipelines" or rest.split(".")[0] in below, f"{name} imports {target}"


@pytest.mark.parametrize("place", NEVER)
def test_some_places_do_not_know_each_other(place):
    for name, target in imports_of(place):
        for other in NEVER[place]:
            assert not _is_in(f"streamboost.{target}", other), f"{name} imports {target}"


def test_every_exception_is_one_still():
    for name, target in EXCEPTIONS:
        assert f"streamboost.{target}" in imported(modules()[f"streamboost.{name}"]), name


def test_no_files_import_each_other_in_a_circle():
    graph = {
        name: {target for target in imported(path) if target in modules()} - {name}
        for name, path in modules().items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize("library", FOREIGN)
def test_client_libraries_stay_in_their_own_places(library):
    for path in modules().values():
        if library in {name.split(".")[0] for name in imported(path)}:
            place = path.relative_to(ROOT)
            homes = FOREIGN[library]
            assert any(place.is_relative_to(home) for home in homes), f"{place} imports {library}"


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


@pytest.mark.slow
def test_scikit_learns_own_learners_are_loaded_for_those_alone_who_give_one():
    at_once = set().union(*(imported(path, at_the_top=True) for path in modules().values()))
    assert "streamboost.boosting.reweighting.regressors" not in at_once


@pytest.mark.slow
def test_importing_the_stream_learner_compiles_and_loads_nothing_heavy():
    heavy = {"numba", "river", "scipy", "sklearn", "kafka", "pydantic"}
    assert not heavy & loaded_by("import streamboost.learner")


def loaded_by_command(command, folder):
    """Run a command of the package in `folder` and return the modules it loaded."""
    code = (
        "import os, sys",
        f"os.chdir({str(folder)!r})",
        f"sys.argv = ['streamboost', *{command.split()}]",
        "from streamboost.pipelines.cli.__main__ import main",
        "sys.stdout = sys.stderr",
        "\ntry: main()\nexcept SystemExit: pass\nsys.stdout = sys.__stdout__\n",
    )
    return loaded_by("; ".join(code[:5]) + code[5] + "pass")


@pytest.mark.parametrize("command", ["init p.toml", "check none.toml", "tell none.toml pause"])
def test_what_needs_no_learner_loads_none(command, tmp_path):
    assert not {"numba", "sklearn", "scipy"} & loaded_by_command(command, tmp_path)


@pytest.mark.slow
def test_pipeline_trains_without_scikit_learn(tmp_path):
    records = [{"id": str(i), "x": i % 7, "label": f"{i % 7 > 3}"} for i in range(200)]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nname = "p"\n[source]\nconnector = "files"\npath = "r.jsonl"\n'
        '[labels]\nconnector = "inline"\n[committee]\nn_estimators = 3\n'
    )
    loaded = loaded_by_command("run --until-idle p.toml", tmp_path)
    assert "numba" in loaded
    assert not {"sklearn", "pandas", "joblib", "river"} & loaded


@pytest.mark.slow
def test_what_tells_and_inspects_loads_no_learner():
    modules = ("cli.control", "cli.inspect", "config.file", "app.inspect", "state.commands")
    imports = [f"import streamboost.pipelines.{name}" for name in modules]
    assert not {"numba", "sklearn", "scipy"} & loaded_by(*imports)


def test_asking_for_help_loads_nothing_heavy():
    heavy = {"numba", "river", "sklearn", "kafka", "fastapi", "nicegui"}
    assert not heavy & loaded_by_command("--help", ROOT)
