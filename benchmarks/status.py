"""What it costs a pipeline to publish its status, and to be watched.

    python -m benchmarks.status [--records 60000] [--turns 5] [--watchers 5]

A pipeline with the embedded default whose committee is trained predicts `--records` records of
letter's width and number of classes (16 features, 26 classes), made here, asks for labels and
commits, batch by batch. Without a status, with one a second, and with `streamboost serve` and
`--watchers` clients that fetch the status, curves and requests every second (0 leaves that out).
In turns, each time from a new state; ratios are those of one turn, and their medians are shown.
Wall-clock throughput, which needs two cores with nothing else on them, and the CPU time of the
pipeline's process, which does not.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from streamboost.pipelines import assembly
from streamboost.pipelines.config import load
from streamboost.pipelines.health import kept_token

FEATURES, CLASSES, TAUGHT = 16, 26, 2_000
PIPELINE = """
[pipeline]
name = "bench"
state = "{state}"
[source]
connector = "files"
path = "records.jsonl"
[bootstrap]
path = "taught.jsonl"
[schedule]
first = {taught}
growth = 100.0
[monitor]
publish_every = {every}
"""


def write_records(folder, n):
    """Write records around class centres, and some whose labels are known beforehand."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, FEATURES))
    for name, rows in (("records", n), ("taught", TAUGHT)):
        y = rng.integers(0, CLASSES, rows)
        X = (centres[y] + rng.normal(size=(rows, FEATURES))).round(4)
        with (folder / f"{name}.jsonl").open("w") as file:
            for i, (x, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
                record = {"id": f"{name}{i}"} | {f"x{k}": value for k, value in enumerate(x)}
                if name == "taught":
                    record["label"] = str(label)
                file.write(json.dumps(record) + "\n")


class Meter:
    """Times the batches of records: from the first one's commit to the last one's."""

    def __init__(self):
        self.records = 0
        self.begin = self.end = None

    def __call__(self, effects):
        n = len(effects.records)
        now = (time.perf_counter(), time.process_time())
        if self.begin is None and n:
            self.begin = now
        elif n:
            self.records += n
            self.end = now

    def rate(self):
        """Return records a second, and CPU seconds per record."""
        wall, cpu = (b - a for a, b in zip(self.begin, self.end, strict=True))
        return self.records / wall, cpu / self.records


def run(folder, every, watchers):
    """Run the pipeline from a new state; return what its meter says."""
    shutil.rmtree(folder / "state", ignore_errors=True)
    (folder / "p.toml").write_text(PIPELINE.format(state="state", taught=TAUGHT, every=every))
    meter = Meter()
    with ExitStack() as stack:
        if watchers:
            stack.enter_context(watched(folder, watchers))
        assembly.run(load(folder / "p.toml"), until_idle=True, observer=meter)
    return meter.rate()


@contextmanager
def watched(folder, n):
    """Serve the pipeline meanwhile, in a process of its own, to `n` clients in another."""
    (folder / "state").mkdir()
    token = kept_token(folder / "state" / "serve.token")
    with ExitStack() as stack:
        command = [sys.executable, "-m", "streamboost.pipelines.cli", "serve", "p.toml"]
        server = stack.enter_context(process([*command, "--port", "0"], folder))
        address = server.stdout.readline().split(": ", 1)[1].split("/login")[0].strip()
        command = [sys.executable, "-m", "benchmarks.status", "--client", address]
        clients = stack.enter_context(process([*command, "--watchers", str(n)], None, token))
        clients.stdout.readline()
        yield


@contextmanager
def process(command, folder, token=""):
    environment = os.environ | {"PYTHONPATH": os.getcwd(), "TOKEN": token}
    started = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def watch(address, n):
    """Fetch what a dashboard shows every second, `n` times over, until killed."""

    def fetch(path):
        request = urllib.request.Request(f"{address}/api/v1/pipelines/bench/{path}")
        request.add_header("Authorization", f"Bearer {os.environ['TOKEN']}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read()

    def look():
        while True:
            for path in ("status", "points", "requests"):
                fetch(path)
            time.sleep(1.0)

    fetch("status")
    for _ in range(n):
        threading.Thread(target=look, daemon=True).start()
    print("watching", flush=True)
    threading.Event().wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--watchers", type=int, default=5)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client:
        watch(given.client, given.watchers)
        return
    arms = {"without a status": (0.0, 0), "a status every second": (1.0, 0)}
    if given.watchers:
        arms[f"and {given.watchers} clients watching"] = (1.0, given.watchers)
    found = {name: [] for name in arms}
    with tempfile.TemporaryDirectory() as name:
        write_records(Path(name), given.records)
        run(Path(name), 0.0, 0)  # warm
        for _ in range(given.turns):
            for arm, (every, watchers) in arms.items():
                found[arm].append(run(Path(name), every, watchers))
    show(found)


def show(found):
    table = Table(title="A pipeline that publishes its status", title_justify="left")
    for column in ("", "records a second", "of that without", "CPU time, times that without"):
        table.add_column(column, justify="right" if column else "left")
    without = next(iter(found.values()))
    for arm, turns in found.items():
        pairs = list(zip(turns, without, strict=True))
        rate = median(rate / alone for (rate, _), (alone, _) in pairs)
        cpu = median(cpu / alone for (_, cpu), (_, alone) in pairs)
        shown = f"{median(rate for rate, _ in turns):,.0f}"
        table.add_row(arm, shown, f"{rate:.3f}", f"{cpu:.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
