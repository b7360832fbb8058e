"""Runs a pipeline to its end in a process that kills itself at a numbered step of the loop.

``python killing.py FILE STEP N`` dies the N-th time that it comes to STEP; where that never is, it
ends with code 0.
"""

import os
import signal
import sys
from pathlib import Path

from kafka import KafkaProducer

from streamboost.connectors import sqlite
from streamboost.connectors.kafka_transaction import KafkaTransaction
from streamboost.pipelines import recovery
from streamboost.pipelines.assembly import run
from streamboost.pipelines.checkpoint import Checkpoints
from streamboost.pipelines.config import load
from streamboost.pipelines.inputs import Intake
from streamboost.pipelines.runtime import Pipeline

STEPS = {
    "polled": (Intake, "poll"),
    "replayed": (recovery.Replay, "_redo"),
    "stepped": (Pipeline, "step"),
    "committed": (sqlite.SqliteTransaction, "commit"),
    "committed to Kafka": (KafkaTransaction, "commit"),
    "checkpointed": (Checkpoints, "save"),
}
"""After these."""

WITHIN = {
    "writing": (sqlite, "_create_journal"),
    "writing to Kafka": (KafkaProducer, "commit_transaction"),
    "sealing": (Path, "replace"),
}
"""At these: the batch is written but not committed; a file is written but has no name."""


def kill_at(step, n):
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


if __name__ == "__main__":
    file, step, n = sys.argv[1:]
    kill_at(step, int(n))
    run(load(file), until_idle=True)
