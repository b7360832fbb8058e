"""Processes that run a pipeline and are killed: at a numbered step of the runner, or at random.

``python killing.py FILE STEP N`` kills itself at the N-th time that the runner reaches STEP. If
this never happens, the process ends with code 0, at the end of its input or after `MOST` batches.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import deque
from itertools import islice
from pathlib import Path

import numpy as np
from kafka import KafkaAdminClient, KafkaProducer

from streamboost.connectors.kafka.journal import KafkaJournal
from streamboost.connectors.kafka.transaction import KafkaTransaction
from streamboost.connectors.sqlite import transaction as sqlite_transaction
from streamboost.connectors.sqlite.retention import StreamRetention
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from streamboost.pipelines.runner import replay as recovery
from streamboost.pipelines.runner.batch_reader import BatchReader
from streamboost.pipelines.runner.pipeline import Pipeline
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.state.checkpoints import Checkpoints
from tests.pipelines.watching import committing

KILLS = int(os.environ.get("STREAMBOOST_KILLS", "0"))
"""How many kills the long form has; 0: the short form."""

STEPS = {
    "polled": (BatchReader, "poll"),
    "replayed": (recovery.Replay, "_replay_entry"),
    "stepped": (Pipeline, "step"),
    "committed": (sqlite_transaction.SqliteTransaction, "commit"),
    "committed to Kafka": (KafkaTransaction, "commit"),
    "checkpointed": (Checkpoints, "save"),
    "deleted": (StreamRetention, "delete_before"),
    "deleted from Kafka": (KafkaJournal, "delete_before"),
}
"""After these."""

WITHIN = {
    "writing": (sqlite_transaction, "_create_journal_tables"),
    "writing to Kafka": (KafkaProducer, "commit_transaction"),
    "sealing": (Path, "replace"),
    "deleting": (StreamRetention, "_delete_moments_before"),
    "deleting from Kafka": (KafkaAdminClient, "delete_records"),
}
"""At these: the batch is written but not committed; a file is written but has no name."""

ANY_MOMENT = "any moment"
MOST = 16


class Nothing:
    """What is written where all is there already."""

    def write(self, everything=False):
        pass


class Feed:
    """Records and their labels, some of them damaged, in pieces that are written on demand.

    Parameters
    ----------
    records, truth : what is written; each label comes with the piece after its record's
    pieces : in how many calls of `write` most of it is written
    send : writes two lists, of records and labels as bytes
    """

    def __init__(self, records, truth, pieces, send):
        lines = [json.dumps(record).encode() for record in records]
        self.damaged = range(37, len(records), 53)
        for n in self.damaged:
            lines[n] = lines[n][:-9]
        labels = [
            json.dumps({"id": record["id"], "label": label}).encode()
            for n, (record, label) in enumerate(zip(records, truth, strict=True))
            if n not in self.damaged
        ]
        self.truth = {record["id"]: label for record, label in zip(records, truth, strict=True)}
        self.sound = [r["id"] for n, r in enumerate(records) if n not in self.damaged]
        self._lines, self._labels = deque(lines), deque(labels)
        self._size = -(-len(records) // (pieces + 1))
        self._behind = self._size
        self._send = send

    def write(self, everything=False):
        """Write the next piece, or all that is left."""
        records = self._take(self._lines, len(self._lines) if everything else self._size)
        n = len(self._labels) if everything else max(len(records) - self._behind, 0)
        self._behind = max(self._behind - len(records), 0)
        self._send(records, self._take(self._labels, n))

    @staticmethod
    def _take(queue, n):
        return [queue.popleft() for _ in range(min(n, len(queue)))]


def drawn(steps):
    """Give kills without end, half of them at any moment: (step, how often it is come to)."""
    draw = random.Random(KILLS)
    while True:
        yield ANY_MOMENT, draw.random()
        yield draw.choice(steps), draw.randint(1, 4)


def kill(file, kills, n, feed=Nothing(), faults=()):  # noqa: B008 - it holds nothing
    """Run the pipeline of `file` until it was killed `n` times; return the steps and the last file.

    `feed` writes messages before, during and after each run. In every fifth run, the next one of
    `faults` is called with the process and its file. A fault ends the process and returns the file
    of the next run.
    """
    died = []
    for turn, (step, when) in enumerate(islice(kills, 4 * n), 1):
        feed.write()
        process = started(file, step, when)
        feed.write()
        is_faulty = bool(faults) and turn % 5 == 0
        if is_faulty:
            file = faults[turn // 5 % len(faults)](process, file)
        elif step == ANY_MOMENT:
            _kill_after(process, when)
        ended = process.wait(120)
        process.stdout.close()
        feed.write()
        assert ended in (-signal.SIGKILL, 0) or is_faulty, (step, when, ended)
        if ended:
            died.append(step)
        if len(died) == n:
            break
    feed.write(everything=True)
    return died, file


def started(file, step=ANY_MOMENT, when=0):
    """Start a process that runs the pipeline of `file`, and return it when it has begun."""
    command = [sys.executable, __file__, str(file), step, str(when)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


def _kill_after(process, seconds):
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()


def verified(file):
    """Return what a fresh process says that replays the whole journal of the pipeline of `file`."""
    command = [
        sys.executable,
        "-m",
        "streamboost.pipelines.cli.__main__",
        "inspect",
        "--verify",
        str(file),
    ]
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
    stop, batches = StopToken(), []

    def count(effects):
        batches.append(effects.sequence)
        if len(batches) == MOST:
            stop.request_stop()

    run(load(file), until_idle=True, stop=stop, observers=[committing(count)])


if __name__ == "__main__":
    main(*sys.argv[1:])
