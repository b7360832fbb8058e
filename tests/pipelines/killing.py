"""Processes that run a pipeline and are killed: at a numbered step of the loop, or at any moment.

``python killing.py FILE STEP N`` dies the N-th time that it comes to STEP. Where that never is, it
ends with code 0, at the end of its input or after `MOST` batches.
"""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
from kafka import KafkaProducer

from streamboost.connectors import sqlite_transaction
from streamboost.connectors.kafka_transaction import KafkaTransaction
from streamboost.pipelines import recovery
from streamboost.pipelines.assembly import run
from streamboost.pipelines.checkpoint import Checkpoints
from streamboost.pipelines.config import load
from streamboost.pipelines.inputs import Intake
from streamboost.pipelines.runtime import Pipeline
from streamboost.pipelines.stop import Stop

KILLS = int(os.environ.get("STREAMBOOST_KILLS", "0"))
"""How many kills the long form has; 0: the short form."""

STEPS = {
    "polled": (Intake, "poll"),
    "replayed": (recovery.Replay, "_redo"),
    "stepped": (Pipeline, "step"),
    "committed": (sqlite_transaction.SqliteTransaction, "commit"),
    "committed to Kafka": (KafkaTransaction, "commit"),
    "checkpointed": (Checkpoints, "save"),
}
"""After these."""

WITHIN = {
    "writing": (sqlite_transaction, "_create_journal"),
    "writing to Kafka": (KafkaProducer, "commit_transaction"),
    "sealing": (Path, "replace"),
}
"""At these: the batch is written but not committed; a file is written but has no name."""

ANY_MOMENT = "any moment"
MOST = 16


def drawn(steps):
    """Give kills without end, half of them at any moment: (step, how often it is come to)."""
    draw = random.Random(KILLS)
    while True:
        yield ANY_MOMENT, draw.random()
        yield draw.choice(steps), draw.randint(1, 4)


def kill(file, kills, n):
    """Run the pipeline of `file` as often as `n` deaths take; return how it was killed."""
    died = []
    for (step, when), _ in zip(kills, range(4 * n), strict=False):
        process = _started(file, step, when)
        if step == ANY_MOMENT:
            process.stdout.readline()
            _kill_after(process, when)
        ended = process.wait(120)
        process.stdout.close()
        assert ended in (-signal.SIGKILL, 0), (step, when, ended)
        if ended:
            died.append(step)
        if len(died) == n:
            break
    return died


def _started(file, step, when):
    command = [sys.executable, __file__, str(file), step, str(when)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)


def _kill_after(process, seconds):
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()


def verified(file):
    """Return what a fresh process says that replays the whole journal of the pipeline of `file`."""
    command = [sys.executable, "-m", "streamboost.pipelines.cli", "inspect", "--verify", str(file)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_budget_was_kept(ledger, predicted, requests, budget, burst=20):
    """See that the ledger says what was written, and that its limits held at every record."""
    asked = [p["id"] for p in predicted if p["asked"]]
    assert asked == [r["id"] for r in requests]
    assert ledger["records"] == len(predicted)
    assert ledger["requests"] == len(requests)
    spent = np.cumsum([p["asked"] for p in predicted]) - budget * np.arange(1, len(predicted) + 1)
    assert spent.max() <= 1e-9, "never more than the share of the records so far"
    before = np.minimum.accumulate(np.concatenate([[0.0], spent[:-1]]))
    assert (spent - before).max() <= burst + 1e-9, "nor than that and a burst in any row of them"


def _die_at(step, n):
    """Have this process killed as it comes to `step` for the `n`-th time."""
    owner, name = (STEPS | WITHIN)[step]
    original = getattr(owner, name)
    left = [n]

    def count_down():
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(*arguments, **more):
        if step in WITHIN:
            count_down()
        found = original(*arguments, **more)
        if step in STEPS:
            count_down()
        return found

    setattr(owner, name, wrapped)


def main(file, step, when):
    if step != ANY_MOMENT:
        _die_at(step, int(when))
    print("going", flush=True)
    stop, batches = Stop(), []

    def count(effects):
        batches.append(effects.sequence)
        if len(batches) == MOST:
            stop.request()

    run(load(file), until_idle=True, stop=stop, observer=count)


if __name__ == "__main__":
    main(*sys.argv[1:])
