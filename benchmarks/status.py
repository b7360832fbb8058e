"""What it costs a pipeline to publish its status, to be watched, and to be asked for predictions.

    python -m benchmarks.status [--turns 10] [--clients 5] [--predictions 200]
    python -m benchmarks.status --beside FOLDER [--turns 5] [--clients 5] [--repeats 3]

A pipeline with the embedded default whose committee is trained predicts records of letter's width
and number of classes (16 features, 26 classes), made here, as fast as it can, asks for labels and
commits, batch by batch (and takes one checkpoint, before the turns, as others would fall on some of
them only). It does so without a status, with one a second, with `streamboost serve` and `--clients`
open dashboards, to which changes are pushed (0 leaves that out), and with a `serve` that is asked
for `--predictions` of one record a second (0 leaves that out; aim: less than 5 % slower). In turns
of two seconds within one run; each turn is compared with that without a status just before it, and
medians are shown. Wall-clock throughput and the process's CPU time per record, which need two cores
with nothing else on them; and, which does not, the share of its own CPU time that the loop spends
on publishing. Below that, what the dashboards cost: the share of a core that `serve` takes, and
what is pushed to each of them, as JSON and as it is compressed on the wire; and how many
predictions were answered a second, and how soon.

With `--beside`, what looking costs beside another state of the project, say a `git worktree` of the
commit before: `opening` says what is measured.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

import streamboost
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
from streamboost.pipelines.status.reader import StatusReader

try:
    from streamboost.pipelines.job.run import set_aside
except ImportError:  # measured may be a state of the project that had none
    set_aside = nullcontext

HERE = Path(__file__).parent
ROOT = Path(streamboost.__file__).parents[1]
"""Of the project that is measured."""

FEATURES, CLASSES, TAUGHT = 16, 26, 2_000
SECONDS = 1.9
"""In which two statuses are published."""
STEADY = 500
"""Records a second of a pipeline that leaves a busy machine time to publish."""
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
    """Gives records without end: the same values again and again under new ids.

    `rate` is how many a second at most; None: as many as are taken.
    """

    def __init__(self, bodies, rate=None):
        self._bodies = bodies
        self._next = 0
        self._rate = rate

    def poll(self, limit):
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
    """One way to be watched: whether there is a status, and which processes look at it."""

    def __init__(self, publisher=None, processes=(), *, is_counting=False):
        self.publisher = publisher
        self.turns = []
        self.serving = []
        self.seconds = 0.0
        self._since = None
        self._processes, self._is_counting = processes, is_counting
        self._spent = 0.0

    def count(self):
        """Have dashboards count from now on, and note for how long they do."""
        self.seconds, self._since = 0.0, time.perf_counter()
        if self._is_counting:
            self._processes[1].send_signal(signal.SIGUSR1)

    def work(self):
        self._since = time.perf_counter()
        self._spent = cpu_of(self._processes)
        for process in self._processes:
            process.send_signal(signal.SIGCONT)

    def note(self, seconds):
        self.serving.append((cpu_of(self._processes) - self._spent) / seconds)

    def rest(self):
        if self._since is not None:
            self.seconds += time.perf_counter() - self._since
        self._since = None
        for process in self._processes:
            process.send_signal(signal.SIGSTOP)


class Turns(Watcher):
    """Lets the arms take turns at watching a pipeline, and notes how fast it was meanwhile."""

    def __init__(self, arms, n_turns, stop, checkpoint, is_ready=lambda: True):
        self._checkpoint = checkpoint
        self._is_ready = is_ready
        self._order = [arm for _ in range(n_turns + 1) for arm in arms]  # the first are to warm up
        self._stop = stop
        self._records = 0
        self._spent = 0.0
        self._began = None
        self._is_trained = False

    def committed(self, effects):
        self._is_trained = effects.committee is not None
        if self._checkpoint is not None or not self._order:
            return  # it is not ready yet, or a batch was under way when the last turn ended
        if self._order[0].publisher is not None:
            with self._told():
                self._order[0].publisher.committed(effects)
        if self._began is None:
            # What a publisher was not told of in other turns is made up for before it counts.
            if self._is_ready() and not self.is_due:
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

    @property
    def is_due(self):
        if self._checkpoint is not None:
            return True
        return any(arm.publisher is not None and arm.publisher.is_due for arm in self._order[:1])

    def between_batches(self):
        if self._checkpoint is not None and self._is_trained:
            self._checkpoint()
            self._checkpoint, self._began = None, None
            # Not before: whoever is stopped for long is taken to have gone.
            for arm in self._order:
                arm.rest()
            self._order[0].work()
        if self._order and self._order[0].publisher is not None:
            with self._told():
                self._order[0].publisher.between_batches()

    def _begin(self):
        if len(self._order[0].turns) == 1:  # what came before, and in it, is to warm up
            self._order[0].count()
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


def measure(folder, n_turns, n_clients, rate, *, alone=False):
    """Return the arms by their names, with what was measured, and what their clients say of it.

    `alone`: those alone in which the status is shown, of a pipeline to which little comes.
    """
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
        source = Endless([body[1:].encode() for body in bodies], STEADY if alone else None)
        loop = build_loop(config, state, schema, replace(connectors, records=source))
        publisher = Publisher(loop, state.path, about(config, loop.pipeline))
        stack.enter_context(closing(publisher))
        arms = {"without a status": Arm(), "a status every second": Arm(publisher)}
        said = {}
        for name, module, n in (
            (f"and {n_clients} open dashboards", "tabs", n_clients),
            (f"and {rate} predictions a second", "predicting", rate),
        ):
            if n:
                said[name] = stack.enter_context(watching(folder, module, n))
                arms[name] = Arm(publisher, said[name], is_counting=module == "tabs")
        if alone:
            arms = {name: arms[name] for name in said}
        points = stack.enter_context(closing(StatusReader(state.path))).points
        # The first publication takes long, after which there is none for long.
        is_ready = (lambda: len(points()) >= 5) if alone else (lambda: True)

        def checkpoint():
            loop.checkpoint()
            if rate and not alone:
                # Loading it, and kernels that no run has compiled yet, may outlast all turns.
                said[f"and {rate} predictions a second"][1].stdout.readline()

        turns = Turns(list(arms.values()), n_turns, loop.stop, checkpoint, is_ready)
        loop.watchers.append(turns)
        with set_aside():
            loop.run()
        told = {name: said_by(clients) for name, (_, clients) in said.items()}
    return arms, told


def said_by(clients):
    """Return the numbers that clients tell when they are told to end."""
    clients.send_signal(signal.SIGTERM)
    clients.send_signal(signal.SIGCONT)
    return [float(word) for word in clients.stdout.readline().split()]


@contextmanager
def watching(folder, module, n):
    """Start what serves the pipeline in `folder`, and clients of that, in two processes."""
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
        look = [sys.executable, HERE / f"{module}.py", address, str(n)]
        clients = stack.enter_context(started(look, None, TOKEN=token))
        clients.stdout.readline()
        yield server, clients


@contextmanager
def started(command, folder, **environment):
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def show(arms, told, n_clients):
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
    for name, (count, *took) in told.items():
        share, rate = watched(arms[name], count)
        if name.endswith("open dashboards"):
            said, wire = (n / n_clients / arms[name].seconds for n in (count, *took))
            does = f"pushes {said:,.0f} B/s to each, {wire:,.0f} on the wire"
        else:
            does = (
                f"answers {rate:,.0f} predictions a second, each within {took[0]:.1f} ms (median)"
            )
        print(f"{name}: serve takes {share:.1%} of a core, and {does}")


def watched(arm, count):
    """Return the share of a core that `serve` took, and how many of `count` came in a second."""
    # The first turn, to warm up, is counted, too.
    return median(arm.serving[1:]), count / (len(arm.turns) * SECONDS)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--predictions", type=int, default=200)
    parser.add_argument("--beside", type=Path, metavar="FOLDER")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.beside:
        from benchmarks import opening

        opening.compared(given.beside, given.turns, given.clients, given.repeats)
        return
    with tempfile.TemporaryDirectory() as name:
        place = given.one or Path(name)
        rate = 0 if given.one else given.predictions
        arms, told = measure(place, given.turns, given.clients, rate, alone=bool(given.one))
    if given.one:
        ((name, counts),) = told.items()
        arm = arms[name]
        pushed = [n / given.clients / arm.seconds for n in counts]
        print(json.dumps([100 * median(arm.serving[1:]), *pushed]))
    else:
        show(arms, told, given.clients)


if __name__ == "__main__":
    main()
