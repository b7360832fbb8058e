"""Clients of a pipeline that `benchmarks.status` measures: dashboards, and prediction requests."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

import streamboost
from benchmarks.opening import cpu_of

__all__ = ["CORES", "SECONDS", "Asking", "Dashboards", "watching"]

HERE = Path(__file__).parent
ROOT = Path(streamboost.__file__).parents[1]
"""Folder of the measured project."""

CORES = sorted(os.sched_getaffinity(0))
SECONDS = 1.9
"""Duration of a turn, in which two statuses are published."""


class Lookers:
    """A `serve` process and its clients, which run the benchmark `module` of the subclass."""

    def __init__(self, server, clients, n):
        self._server, self._clients, self._n = server, clients, n

    @property
    def cpu(self):
        """Seconds of CPU time that the `serve` has taken."""
        return cpu_of(self._server.pid)

    def warm_up(self):
        """Load modules and kernels before the turns."""

    def count(self):
        """Reset the counters."""

    def end(self):
        """End the clients and read their counts."""

    def did(self):
        """Return a text with the traffic or latency of the turns."""
        raise NotImplementedError


class Dashboards(Lookers):
    """Open dashboards and their `serve`, both stopped between turns.

    Attributes
    ----------
    pushed : bytes a second pushed to each dashboard, as JSON and on the wire
    """

    module = "tabs"

    def __init__(self, server, clients, n):
        super().__init__(server, clients, n)
        self.pushed = ()
        self._seconds, self._since = 0.0, None

    def work(self):
        self._since = time.perf_counter()
        for process in (self._server, self._clients):
            process.send_signal(signal.SIGCONT)

    def rest(self):
        if self._since is not None:
            self._seconds += time.perf_counter() - self._since
        self._since = None
        for process in (self._server, self._clients):
            process.send_signal(signal.SIGSTOP)

    def count(self):
        self._seconds, self._since = 0.0, time.perf_counter()
        self._clients.send_signal(signal.SIGUSR1)

    def end(self):
        self._clients.send_signal(signal.SIGTERM)
        self._clients.send_signal(signal.SIGCONT)
        counted = map(int, self._clients.stdout.readline().split())
        self.pushed = [n / self._n / self._seconds for n in counted]

    def did(self):
        # A stopped client reconnects, and restarts its count of the bytes on the wire.
        return f"pushes {self.pushed[0]:,.0f} B/s to each"


class Asking(Lookers):
    """Prediction requests and their `serve`; requests are sent only during turns.

    Attributes
    ----------
    taken : for each turn, the latency of its responses in milliseconds
    """

    module = "predicting"

    def __init__(self, server, clients, n):
        super().__init__(server, clients, n)
        self._seconds, self.taken = [], []

    def warm_up(self):
        # Loads the checkpoint, and compiles kernels that no run has compiled yet.
        self.work()
        time.sleep(SECONDS)

    def work(self):
        self._tell("ask")

    def rest(self):
        """Record the latency in milliseconds of each response of this turn."""
        self._tell("rest")
        seconds, *taken = map(float, self._clients.stdout.readline().split())
        self._seconds.append(seconds)
        self.taken.append(taken)

    def did(self):
        # The first two entries are from the time before the turns and from the warm-up turn.
        taken = np.concatenate(self.taken[2:])
        middle, late = np.percentile(taken, [50, 99])
        answers = len(taken) / sum(self._seconds[2:])
        return (
            f"answers {answers:,.0f} of {self._n} predictions a second, in {middle:.1f} ms "
            f"(median) to {late:.1f} ms (99 %) from when each was due"
        )

    def _tell(self, word):
        self._clients.stdin.write(f"{word}\n")
        self._clients.stdin.flush()


@contextmanager
def watching(folder, kind, n):
    """Start a `serve` of the pipeline in `folder`, and a process with `n` clients."""
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
        look = [sys.executable, HERE / f"{kind.module}.py", address, str(n)]
        clients = stack.enter_context(started(look, None, TOKEN=token))
        clients.stdout.readline()
        yield kind(server, clients, n)


@contextmanager
def started(command, folder, **environment):
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=folder, env=environment, **pipes)
    if len(os.sched_getaffinity(0)) < len(CORES):
        os.sched_setaffinity(process.pid, CORES[-1:])
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
