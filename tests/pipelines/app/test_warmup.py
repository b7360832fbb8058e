import fcntl
import os
import threading
from pathlib import Path

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
