"""Cache of compiled kernels: a kernel is compiled again only if one of its source files changes."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streamboost.kernels import jit

KERNELS = Path(jit.__file__).parent

CALLED = """
from streamboost.kernels.jit import inner_kernel

@inner_kernel
def step(x):
    return x + 1
"""
CALLER = """
import numpy as np

from streamboost.kernels.jit import kernel
from streamboost.kernels.growing.called import step

@kernel
def twice(x):
    return step(step(x))
"""
RUN = """
import json
from streamboost.kernels.caller import twice

answer = twice(1)
print(json.dumps([answer, twice.stats.cache_hits != {}, twice.targetoptions["nogil"]]))
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the kernels, with one that calls another in a file of a folder below."""
    kernels = tmp_path / "streamboost" / "kernels"
    shutil.copytree(KERNELS, kernels, ignore=shutil.ignore_patterns("__pycache__"))
    (kernels.parent / "__init__.py").touch()
    (kernels / "growing" / "called.py").write_text(CALLED)
    (kernels / "caller.py").write_text(CALLER)
    return kernels


def run_python(package, program, **environment):
    """Run `program` in a new process that imports `package`, without settings of numba."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "PYTHON"))}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=package.parents[1], capture_output=True, text=True,
        env={**kept, **environment}, check=False,
    )  # fmt: skip


def run(package, **environment):
    """Call the kernel in a new process: what it answers, and whether it was found on disk."""
    done = run_python(package, RUN, **environment)
    assert done.returncode == 0, done.stderr
    answer, was_kept, without_gil = json.loads(done.stdout)
    assert without_gil
    return answer, was_kept, done.stderr


@pytest.mark.slow
def test_a_kernel_is_compiled_anew_only_when_one_it_calls_changes_in_another_file(package):
    assert run(package) == (3, False, "")
    assert run(package) == (3, True, "")
    kept = sorted(package.rglob("*twice*.nb*"))
    assert len(kept) == 2  # an index, and a kernel
    called = package / "growing" / "called.py"
    # Of another length: Python itself notices a change within a second by that alone.
    called.write_text(CALLED.replace("x + 1", "x + 50"))
    assert run(package) == (101, False, "")
    assert run(package) == (101, True, "")
    assert sorted(package.rglob("*twice*.nb*")) == kept  # what was compiled before is gone


@pytest.mark.slow
def test_kernels_work_uncached_and_say_so_where_no_folder_can_be_written(package):
    # A file where folders should be made stops root as well.
    (package / "__pycache__").touch()
    nowhere = str(package / "caller.py")
    environment = {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "PYTHONDONTWRITEBYTECODE": "1"}
    answer, was_kept, said = run(package, **environment)
    assert (answer, was_kept) == (3, False)
    assert "compiled kernels cannot be kept" in said
    assert "NUMBA_CACHE_DIR" in said


def test_every_kernel_is_kept_and_runs_without_the_gil():
    found = 0
    for path in KERNELS.rglob("*.py"):
        name = ".".join(path.relative_to(KERNELS).with_suffix("").parts)
        module = importlib.import_module(f"streamboost.kernels.{name}".removesuffix(".__init__"))
        for value in vars(module).values():
            if hasattr(value, "py_func"):
                assert value.targetoptions["nogil"], value
                assert isinstance(value._cache, jit._FolderCache), value
                found += 1
    assert found > 50


TAKES_A_TUPLE = """
from typing import NamedTuple

from streamboost.kernels.jit import kernel

class {name}(NamedTuple):
    x: int

@kernel
def twice(x):
    return 2 * x.x
"""


@pytest.mark.slow
def test_a_kernel_whose_type_was_renamed_is_compiled_anew(package):
    for name in ("Before", "After"):
        (package / "caller.py").write_text(TAKES_A_TUPLE.format(name=name))
        calls = f"from streamboost.kernels.caller import {name}, twice; print(twice({name}(4)))"
        done = run_python(package, calls)
        assert (done.stdout, done.stderr) == ("8\n", "")


def test_kernel_is_compiled_once_for_constants_and_variables():
    @jit.inner_kernel
    def add(x, y):
        return x + y

    @jit.kernel
    def add_thrice(x):
        return add(x, 1) + add(x, 2) + add(x, x)

    assert add_thrice(5) == 23
    assert len(add.signatures) == 1


def test_inner_kernel_called_from_python_raises():
    @jit.inner_kernel
    def double(x):
        return 2 * x

    @jit.kernel
    def double_twice(x):
        return double(double(x))

    with pytest.raises(TypeError, match="double can be called by other kernels only"):
        double(1)
    assert double_twice(1) == 4
    with pytest.raises(TypeError, match="double can be called by other kernels only"):
        double(1)


@pytest.mark.slow
def test_only_kernels_that_python_calls_are_compiled_to_machine_code(package):
    assert run(package) == (3, False, "")
    is_bitcode = {
        path.name.split(".")[1].split("-")[0]: b"bitcode" in path.read_bytes()  # the kind of code
        for path in package.rglob("*.nbc")
        if path.name.startswith(("caller", "called"))
    }
    assert is_bitcode == {"twice": False, "step": True}


WATCH = """
from streamboost.kernels.caller import twice
from streamboost.kernels.jit import watch_compilations

with watch_compilations(lambda: print("compiled")):
    twice(1)
"""


@pytest.mark.slow
def test_compilations_are_reported_and_loaded_kernels_are_not(package):
    assert run_python(package, WATCH).stdout == "compiled\n" * 2  # the kernel, then its callee
    assert run_python(package, WATCH).stdout == ""


PICKLE = """
import pickle
from streamboost.kernels.growing.called import step

open("step", "wb").write(pickle.dumps(step))
"""
LOAD_AND_CALL = """
import pickle

step = pickle.loads(open("step", "rb").read())
for value, signature in ((1, "(int64,)"), (2.5, "(float64,)")):
    step.compile(signature)
    try:
        step(value)
    except TypeError as error:
        print(error)
"""


@pytest.mark.slow
def test_inner_kernel_unpickled_in_another_process_refuses_calls(package):
    assert run_python(package, PICKLE).returncode == 0
    done = run_python(package, LOAD_AND_CALL)
    assert done.stdout == "step can be called by other kernels only\n" * 2, done.stderr
    assert done.returncode == 0
