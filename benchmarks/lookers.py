"""Whoever looks at a pipeline that `benchmarks.status` measures: dashboards, programs that ask."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import streamboost

HERE = Path(__file__).parent
ROOT = Path(streamboost.__file__).parents[1]
"""Of the project that is measured."""

CORES = sorted(os.sched_getaffinity(0))


class Dashboards:
    """What shows dashboards and those who look at them, which stand still between their turns."""

    module = "tabs"

    def __init__(self, server, clients):
        self.server = server
        self.pushed = 0
        self._clients = clients

    def work(self):
        for process in (self.server, self._clients):
            process.send_signal(signal.SIGCONT)

    def rest(self):
        for process in (self.server, self._clients):
            process.send_signal(signal.SIGSTOP)

    def end(self):
        """End them; they say how many bytes were pushed."""
        self._clients.send_signal(signal.SIGTERM)
        self._clients.send_signal(signal.SIGCONT)
        self.pushed = int(self._clients.stdout.readline())


class Asking:
    """What answers, and who asks it in turns alone."""

    module = "predicting"

    def __init__(self, server, clients):
        self.server = server
        self.seconds, self.taken = [], []
        self._clients = clients

    def work(self):
        self._tell("ask")

    def rest(self):
        """Keep the milliseconds that each answer of this turn took."""
        self._tell("rest")
        seconds, *taken = map(float, self._clients.stdout.readline().split())
        self.seconds.append(seconds)
        self.taken.append(taken)

    def _tell(self, word):
        self._clients.stdin.write(f"{word}\n")
        self._clients.stdin.flush()


def cpu_of(lookers):
    """Return the seconds of CPU time that the `serve` of `lookers` has taken."""
    if lookers is None:
        return 0.0
    fields = Path(f"/proc/{lookers.server.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def watching(folder, kind, n):
    """Start what serves the pipeline in `folder`, and `n` who look at that, in two processes."""
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
        yield kind(server, clients)


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
