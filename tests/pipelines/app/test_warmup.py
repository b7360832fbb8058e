import fcntl
import os
import signal
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

import streamboost
from streamboost.pipelines.app import warmup
from streamboost.pipelines.app.warmup import warm_up


def test_a_process_that_begins_beside_one_that_compiles_waits_for_it_and_loads():
    package = Path(streamboost.__file__).parent
    held = os.open(package, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    said, warm = threading.Event(), threading.Event()

    def load():
        warm_up(lambda text: said.set(), [])
        warm.set()

    other = threading.Thread(target=load, daemon=True)
    other.start()
    assert said.wait(60)
    assert not warm.is_set()
    os.close(held)
    assert warm.wait(120)
    other.join()


def test_one_that_has_waited_holds_up_no_other():
    package = Path(streamboost.__file__).parent
    held = os.open(package, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    warm_up(print, [])
    os.close(held)


def test_one_that_is_stopped_while_it_compiles_holds_up_no_other_for_ever(monkeypatch):
    monkeypatch.setattr(warmup, "LONGEST", 0.2)
    held = os.open(Path(streamboost.__file__).parent, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    warm_up(print, [])
    os.close(held)


@contextmanager
def compilation(report):
    report()
    report()
    yield


@pytest.fixture
def second_program(tmp_path, monkeypatch):
    """A warm-up that finds kernels to compile, and whose second process appends to a file."""
    file = tmp_path / "processes"
    monkeypatch.setattr(warmup, "watch_compilations", compilation)
    monkeypatch.setattr(warmup, "compile_prediction_kernels", lambda: None)
    monkeypatch.setattr(warmup, "SECOND_PROGRAM", f"open({str(file)!r}, 'a').write('one')")
    return file


def test_one_second_process_compiles_until_warmup_loads_its_kernels(second_program, monkeypatch):
    found = []

    def load():
        found.append(second_program.read_text())

    monkeypatch.setattr(warmup, "compile_prediction_kernels", load)
    monkeypatch.setattr(warmup, "core_count", lambda: 2)
    warm_up(print, [])
    assert found == ["one"]


def test_no_second_process_compiles_on_a_single_core(second_program, monkeypatch):
    monkeypatch.setattr(warmup, "core_count", lambda: 1)
    warm_up(print, [])
    assert not second_program.exists()


def test_second_process_that_hangs_is_killed(second_program, monkeypatch):
    popen, started = subprocess.Popen, []

    def start(*args, **settings):
        started.append(popen(*args, **settings))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(warmup, "SECOND_PROGRAM", "import time; time.sleep(600)")
    monkeypatch.setattr(warmup, "core_count", lambda: 2)
    monkeypatch.setattr(warmup, "LONGEST", 0.1)
    warm_up(print, [])
    assert started[0].returncode == -signal.SIGKILL
