"""What it costs a pipeline to publish its status, and to be watched.

    python -m benchmarks.status [--turns 10] [--clients 5]

A pipeline with the embedded default whose committee is trained predicts records of letter's width
and number of classes (16 features, 26 classes), made here, as fast as it can, asks for labels and
commits, batch by batch (and takes no checkpoints, which would fall on some turns only). It does so
without a status, with one a second, and with `streamboost serve` and `--clients` open dashboards,
to which changes are pushed (0 leaves that out). In turns of two seconds within one run; each turn
is compared with that without a status just before it, and medians are shown. Wall-clock throughput
and the process's CPU time per record, which need two cores with nothing else on them; and, which
does not, the share of its own CPU time that the loop spends on publishing. Below that, what the
dashboards cost: the share of a core that `serve` takes, and what is pushed to each of them.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from streamboost.connectors.base import Message, Source
from streamboost.connectors.messages.schema import Schema
from streamboost.pipelines.config.binding import adopt
from streamboost.pipelines.config.file import load
from streamboost.pipelines.engine.watchers import Watcher
from streamboost.pipelines.job.connect import connect
from streamboost.pipelines.job.run import build_loop
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.status.documents import about
from streamboost.pipelines.status.publisher import Publisher

FEATURES, CLASSES, TAUGHT = 16, 26, 2_000
SECONDS = 1.9
"""In which two statuses are published."""
PIPELINE = """
[pipeline]
name = "bench"
checkpoint_every = 1000000
[source]
connector = "sqlite"
stream = "records"
[bootstrap]
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
    """Gives records without end: the same values again and again under new ids."""

    def __init__(self, bodies):
        self._bodies = bodies
        self._next = 0

    def poll(self, limit):
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
    """One way to be watched: whether there is a status, and which processes look at it."""

    def __init__(self, publisher=None, processes=()):
        self.publisher = publisher
        self.turns = []
        self.serving = []
        self._processes = processes
        self._spent = 0.0
        self.rest()

    def work(self):
        self._spent = cpu_of(self._processes)
        for process in self._processes:
            process.send_signal(signal.SIGCONT)

    def note(self, seconds):
        self.serving.append((cpu_of(self._processes) - self._spent) / seconds)

    def rest(self):
        for process in self._processes:
            process.send_signal(signal.SIGSTOP)


class Turns(Watcher):
    """Lets the arms take turns at watching a pipeline, and notes how fast it was meanwhile."""

    def __init__(self, arms, n_turns, stop):
        self._order = [arm for _ in range(n_turns + 1) for arm in arms]  # the first are to warm up
        self._stop = stop
        self._records = 0
        self._spent = 0.0
        self._began = None

    def committed(self, effects):
        if not self._order:  # one more batch was under way when the last turn ended
            return
        if self._order[0].publisher is not None:
            with self._told():
                self._order[0].publisher.committed(effects)
        if self._began is None:
            self._begin()
            return
        self._records += len(effects.records)
        wall, cpu, loop = (b - a for a, b in zip(self._began, clocks(), strict=True))
        if wall >= SECONDS:
            arm = self._order.pop(0)
            arm.turns.append((self._records / wall, cpu / self._records, self._spent / loop))
            arm.note(wall)
            arm.rest()
            self._began = None
            if self._order:
                self._order[0].work()
            else:
                self._stop.request()

    def between_batches(self):
        if self._order and self._order[0].publisher is not None:
            with self._told():
                self._order[0].publisher.between_batches()

    def _begin(self):
        self._began, self._records, self._spent = clocks(), 0, 0.0

    @contextmanager
    def _told(self):
        """Note what the loop spends on telling its status."""
        before = time.thread_time()
        yield
        self._spent += time.thread_time() - before


def cpu_of(processes):
    """Return the seconds of CPU time that the first of `processes`, `serve`, has taken."""
    if not processes:
        return 0.0
    fields = Path(f"/proc/{processes[0].pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def clocks():
    """Return wall-clock time, the process's CPU time, and this thread's."""
    return time.perf_counter(), time.process_time(), time.thread_time()


def measure(folder, n_turns, n_clients):
    """Return the arms by their names, with what was measured, and bytes a second a dashboard."""
    bodies, labels = make_records(20_000)
    with (folder / "taught.jsonl").open("w") as file:
        for i, (body, label) in enumerate(zip(bodies[:TAUGHT], labels, strict=False)):
            file.write(json.dumps({"id": f"t{i}", "label": str(label)} | json.loads(body)) + "\n")
    (folder / "p.toml").write_text(PIPELINE)
    config = load(folder / "p.toml")
    state = State(config.state)
    with state.locked(), ExitStack() as stack:
        connectors = stack.enter_context(closing(connect(config)))
        connectors.transaction.fence()
        adopt(config, state, begun=False)
        schema = Schema(numeric=[f"x{k}" for k in range(FEATURES)])
        source = Endless([body[1:].encode() for body in bodies])
        loop = build_loop(config, state, schema, replace(connectors, records=source))
        publisher = Publisher(loop, state.path, about(config, loop.pipeline))
        stack.enter_context(closing(publisher))
        arms = {"without a status": Arm(), "a status every second": Arm(publisher)}
        if n_clients:
            processes = stack.enter_context(watching(folder, n_clients))
            arms[f"and {n_clients} open dashboards"] = Arm(publisher, processes)
        turns = Turns(list(arms.values()), n_turns, loop.stop)
        loop.watchers.append(turns)
        loop.run()
        pushed = pushed_to(processes[1]) if n_clients else 0
    return arms, pushed / max(n_clients, 1) / (n_turns * SECONDS)


def pushed_to(clients):
    """Return how many bytes came to all dashboards."""
    clients.send_signal(signal.SIGTERM)
    clients.send_signal(signal.SIGCONT)
    return int(clients.stdout.readline())


@contextmanager
def watching(folder, n):
    """Start what serves the pipeline in `folder`, and `n` clients of that, in two processes."""
    with ExitStack() as stack:
        serve = [
            sys.executable,
            "-m",
            "streamboost.pipelines.cli.__main__",
            "serve",
            "p.toml",
            "--port=0",
        ]
        server = stack.enter_context(started(serve, folder))
        address = server.stdout.readline().split(": ", 1)[1].split("/login")[0].strip()
        token = (folder / "state" / "serve.token").read_text().strip()
        look = [sys.executable, "-m", "benchmarks.tabs", address, str(n)]
        clients = stack.enter_context(started(look, None, TOKEN=token))
        clients.stdout.readline()
        yield server, clients


@contextmanager
def started(command, folder, **environment):
    environment = os.environ | {"PYTHONPATH": os.getcwd()} | environment
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def show(arms, pushed):
    table = Table(title="A pipeline that publishes its status", title_justify="left")
    table.add_column("")
    for column in ("records a second", "of that without", "CPU, of that without", "of the loop"):
        table.add_column(column, justify="right")
    without = next(iter(arms.values())).turns[1:]
    for name, arm in arms.items():
        pairs = list(zip(arm.turns[1:], without, strict=True))
        rate, cpu = (median(turn[i] / alone[i] for turn, alone in pairs) for i in range(2))
        shown, spent = (median(turn[i] for turn in arm.turns[1:]) for i in (0, 2))
        table.add_row(name, f"{shown:,.0f}", f"{rate:.3f}", f"{cpu:.3f}", f"{spent:.1%}")
    Console().print(table)
    *_, (name, watched) = arms.items()
    if pushed:
        share = median(watched.serving[1:])
        print(f"{name}: serve takes {share:.1%} of a core, and pushes {pushed:,.0f} B/s to each")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--clients", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        show(*measure(Path(name), given.turns, given.clients))


if __name__ == "__main__":
    main()
