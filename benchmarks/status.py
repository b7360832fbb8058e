"""Cost of publishing a pipeline's status, of open dashboards, and of prediction requests.

    python -m benchmarks.status [--turns 10] [--clients 5] [--predictions 200] [--pinned]
    python -m benchmarks.status --baseline FOLDER [--turns 5] [--clients 5] [--repeats 3]

A pipeline with the default learner and a trained committee predicts records as fast as it can. The
records have the width and number of classes of letter (16 features, 26 classes) and are generated.
The pipeline requests labels and commits batch by batch, with a checkpoint every hundred batches,
several a second. Four conditions are compared:

- without a status;
- with a status once a second;
- with `streamboost serve` and `--clients` open dashboards, which receive changes (0 skips this);
- with a `serve` that receives `--predictions` requests of one record a second, at even intervals,
  and loads newer checkpoints (0 skips this; aim: less than 5 % slower than with a status alone).

The conditions alternate in turns of two seconds within one run, forwards and backwards. Each turn
is compared with that of the same round, and medians are shown. Wall-clock throughput and CPU time
per record need two cores without other load; the share of its own CPU time that the loop spends on
publishing does not.

Below the table: the cost of dashboards and predictions in addition to the status, the share of a
core that `serve` takes, the bytes pushed to each dashboard, and the latency of predictions from
their scheduled time.

The pipeline's threads, `serve` and its clients share the machine's cores. With `--pinned` the
pipeline has the first core and everything else the last: the rest is the cost of a `serve` with its
own core.

`--baseline` compares with another state of the project, for example a `git worktree` of the
previous commit; see `opening` for what is measured.
"""

import argparse
import json
import os
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.lookers import CORES, SECONDS, Asking, Dashboards, watching
from streamboost.connectors.base import Message, Source
from streamboost.connectors.messages.schema import Schema
from streamboost.pipelines.app.connect import create_connectors
from streamboost.pipelines.app.run import build_runner
from streamboost.pipelines.config.compatibility import store_config
from streamboost.pipelines.config.file import load
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.status.documents import pipeline_document
from streamboost.pipelines.status.publisher import Publisher
from streamboost.pipelines.status.reader import StatusReader

try:
    from streamboost.pipelines.cli.heap import freeze_gc_after_recovery
except ImportError:  # measured may be a state of the project that had none
    freeze_gc_after_recovery = partial(nullcontext, Observer())

WITHOUT, STATUS = "without a status", "a status every second"
FEATURES, CLASSES, TAUGHT = 16, 26, 2_000
STEADY = 500
"""Records a second of a pipeline that leaves a busy machine time to publish."""
PIPELINE = """
[pipeline]
name = "bench"
[source]
connector = "sqlite"
stream = "records"
[initial_data]
path = "taught.jsonl"
[requests]
connector = "sqlite"
stream = "requests"
expires_after = 2000
[schedule]
first = 2000
growth = 100.0
"""


class Endless(Source):
    """Endless source that repeats the same values under new ids.

    Each poll returns one record less than its limit, as at the end of a backlog. During a backlog
    no request would expire, and requests have no answers here. `rate` is the maximum number of
    records per second; None means no limit.
    """

    def __init__(self, bodies, rate=None):
        self._bodies = bodies
        self._next = 0
        self._rate = rate

    def poll(self, limit):
        limit -= 1
        if self._rate is not None:
            time.sleep(limit / self._rate)
        places = range(self._next, self._next + limit)
        payloads = [b'{"id": %d, %s' % (i, self._bodies[i % len(self._bodies)]) for i in places]
        self._next += limit
        return [Message(p, "0", i, len(p)) for i, p in zip(places, payloads, strict=True)]

    def position(self):
        return {"0": self._next}

    def seek(self, position):
        self._next = position.get("0", 0)


def make_records(n):
    """Return records around class centres as JSON texts, and their labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, n)
    X = rng.normal(size=(CLASSES, FEATURES))[y] + rng.normal(size=(n, FEATURES))
    rows = X.round(4).tolist()
    return [json.dumps({f"x{k}": v for k, v in enumerate(row)}) for row in rows], y.tolist()


class Arm:
    """Condition of the benchmark: with or without a status, and its clients."""

    def __init__(self, publisher=None, lookers=None):
        self.publisher = publisher
        self.turns = []
        self.serving = []
        self.lookers = lookers
        self._spent = self._since = 0.0

    def work(self):
        self._spent, self._since = self._cpu(), time.perf_counter()
        if self.lookers is not None:
            self.lookers.work()

    def note(self):
        seconds = time.perf_counter() - self._since
        self.serving.append((self._cpu() - self._spent) / seconds)

    def rest(self):
        if self.lookers is not None:
            self.lookers.rest()

    def _cpu(self):
        return 0.0 if self.lookers is None else self.lookers.cpu


class Turns(Observer):
    """Observer that alternates the conditions of a pipeline and measures its speed."""

    def __init__(self, arms, n_turns, stop, checkpoint, is_ready=lambda: True):
        self._checkpoint = checkpoint
        self._is_ready = is_ready
        self._order = []  # forwards, then backwards, as a machine slows down; first is warm-up
        for turn in range(n_turns + 1):
            self._order += arms if turn % 2 else arms[::-1]
        self._stop = stop
        self._records = 0
        self._spent = 0.0
        self._began = None
        self._is_trained = False

    def on_commit(self, effects):
        self._is_trained = effects.committee is not None
        if self._checkpoint is not None or not self._order:
            return  # not ready yet, or the last turn ended during a batch
        if self._order[0].publisher is not None:
            with self._told():
                self._order[0].publisher.on_commit(effects)
        if self._began is None:
            # The publisher first catches up on the batches of other turns, outside the measurement.
            if self._is_ready() and not self.is_work_due:
                self._begin()
            return
        self._records += len(effects.records)
        wall, cpu, loop = (b - a for a, b in zip(self._began, clocks(), strict=True))
        if wall >= SECONDS:
            arm = self._order.pop(0)
            arm.turns.append((self._records / wall, cpu / self._records, self._spent / loop))
            arm.note()
            arm.rest()
            self._began = None
            if self._order:
                self._order[0].work()
            else:
                self._stop.request_stop()

    @property
    def is_work_due(self):
        if self._checkpoint is not None:
            return True
        return any(
            arm.publisher is not None and arm.publisher.is_work_due for arm in self._order[:1]
        )

    def between_batches(self):
        if self._checkpoint is not None and self._is_trained:
            self._checkpoint()
            self._checkpoint, self._began = None, None
            # Not earlier: a client that is stopped for long is disconnected.
            for arm in dict.fromkeys(self._order):
                arm.rest()
            self._order[0].work()
        if self._order and self._order[0].publisher is not None:
            with self._told():
                self._order[0].publisher.between_batches()

    def _begin(self):
        arm = self._order[0]
        if len(arm.turns) == 1 and arm.lookers is not None:
            arm.lookers.count()  # earlier counts belong to the warm-up
        self._began, self._records, self._spent = clocks(), 0, 0.0

    @contextmanager
    def _told(self):
        """Measure the time that the loop spends on publishing its status."""
        before = time.thread_time()
        yield
        self._spent += time.thread_time() - before


def clocks():
    """Return wall-clock time, the process's CPU time, and this thread's."""
    return time.perf_counter(), time.process_time(), time.thread_time()


def measure(folder, n_turns, n_clients, rate, *, alone=False, pinned=False):
    """Return the measured conditions by name.

    `alone` measures only conditions with dashboards, on a pipeline with a low rate. `pinned` gives
    the pipeline the first core, and the clients the last.
    """
    if pinned:
        os.sched_setaffinity(0, CORES[:1])
    bodies, labels = make_records(20_000)
    with (folder / "taught.jsonl").open("w") as file:
        for i, (body, label) in enumerate(zip(bodies[:TAUGHT], labels, strict=False)):
            file.write(json.dumps({"id": f"t{i}", "label": str(label)} | json.loads(body)) + "\n")
    (folder / "p.toml").write_text(PIPELINE)
    config = load(folder / "p.toml")
    state = State(config.state)
    with state.hold_lock(), ExitStack() as stack:
        connectors = stack.enter_context(closing(create_connectors(config)))
        connectors.transaction.fence()
        store_config(config, state, state_has_begun=False)
        schema = Schema(numeric=[f"x{k}" for k in range(FEATURES)])
        source = Endless([body[1:].encode() for body in bodies], STEADY if alone else None)
        loop = build_runner(config, state, schema, replace(connectors, records=source))
        publisher = Publisher(loop, state.path, pipeline_document(config, loop.pipeline))
        stack.enter_context(closing(publisher))
        arms = {} if alone else {WITHOUT: Arm(), STATUS: Arm(publisher)}
        for name, kind, n in (
            (f"and {n_clients} open dashboards", Dashboards, n_clients),
            (f"and {rate} predictions a second", Asking, rate),
        ):
            if n:
                arms[name] = Arm(publisher, stack.enter_context(watching(folder, kind, n)))
        looking = [arm.lookers for arm in arms.values() if arm.lookers is not None]
        points = stack.enter_context(closing(StatusReader(state.path))).chart_points
        # The first publication takes long, after which there is none for long.
        is_ready = (lambda: len(points()) >= 5) if alone else (lambda: True)

        def checkpoint():
            loop.save_checkpoint()
            for lookers in looking:
                lookers.warm_up()

        turns = Turns(list(arms.values()), n_turns, loop.stop, checkpoint, is_ready)
        loop.observers.append(turns)
        with freeze_gc_after_recovery() as freezer:
            loop.observers.append(freezer)
            loop.run()
        for lookers in looking:
            lookers.end()
    return arms


def show(arms):
    table = Table(title="A pipeline that publishes its status", title_justify="left")
    table.add_column("")
    for column in ("records a second", "of that without", "CPU, of that without", "of the loop"):
        table.add_column(column, justify="right")
    for name, arm in arms.items():
        times, cpu = compared(arm, arms[WITHOUT])
        shown, spent = (median(turn[i] for turn in arm.turns[1:]) for i in (0, 2))
        table.add_row(name, f"{shown:,.0f}", f"{times:.3f}", f"{cpu:.3f}", f"{spent:.1%}")
    Console(width=100).print(table)
    for name, arm in arms.items():
        if arm.lookers is None:
            continue
        times, cpu = compared(arm, arms[STATUS])
        print(f"{name}: {times:.3f} of the records a second with a status alone,")
        print(
            f"  at {cpu:.3f} of the CPU for each; serve takes {median(arm.serving[1:]):.1%} of a",
            end="",
        )
        print(f" core, and {arm.lookers.did()}")


def compared(arm, other):
    """Return the records a second of `arm`, and the CPU time of each, as shares of `other`'s."""
    pairs = list(zip(arm.turns[1:], other.turns[1:], strict=True))
    return [median(turn[i] / beside[i] for turn, beside in pairs) for i in range(2)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--predictions", type=int, default=200)
    parser.add_argument("--baseline", type=Path, metavar="FOLDER")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pinned", action="store_true")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.baseline:
        from benchmarks import opening

        opening.compared(given.baseline, given.turns, given.clients, given.repeats)
        return
    with tempfile.TemporaryDirectory() as name:
        place = given.one or Path(name)
        rate = 0 if given.one else given.predictions
        counts = given.turns, given.clients, rate
        arms = measure(place, *counts, alone=bool(given.one), pinned=given.pinned)
    if given.one:
        (arm,) = arms.values()
        print(json.dumps([100 * median(arm.serving[1:]), *arm.lookers.pushed]))
    else:
        show(arms)


if __name__ == "__main__":
    main()
