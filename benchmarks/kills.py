"""Recovery time of a training on Dask after a worker is killed at a random moment.

    python -m benchmarks.kills [--kills 20] [--workers 3] [--rows 900] [--rounds 300] [--seed 0]

The benchmark kills workers of a LocalCluster (SIGKILL), one in each small training, at a moment
drawn from the usual duration of such a training. Each committee must equal, byte for byte, the one
that a single machine trains; a difference is reported. Three times are measured in seconds from the
kill: until the attempt was given up, until the next attempt had all its rows and started, and until
the committee was complete. The exit status is 1 if bytes differ or if 30 seconds were not enough.
Workers that Dask restarts load their modules before the next kill.
"""

import argparse
import logging
import os
import signal
import sys
import threading
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.time_to_error import made_up
from streamboost import SketchLogitBoostClassifier

SECONDS = 30


class Stages(logging.Handler):
    """Notes when attempts begin and end."""

    def __init__(self):
        super().__init__()
        self.begun, self.ended = [], []

    def emit(self, record):
        noted = self.begun if record.msg.startswith("training on") else self.ended
        noted.append(time.monotonic())


def bytes_of(model):
    return {name: np.asarray(a).tobytes() for name, a in model.committee_.to_arrays().items()}


def killed(make, rows, pid, moment, expected):
    """Train, kill a worker on the way, and return the line of the table, with its seconds."""
    stages, told, model = Stages(), [], make()
    logger = logging.getLogger("streamboost.dask.training")
    logger.addHandler(stages)

    def fit():
        try:
            model.fit(*rows)
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join(moment)
    was_done, kill = not thread.is_alive(), time.monotonic()
    within = "done" if was_done else "training" if stages.begun else "reading, cutting"
    os.kill(pid, signal.SIGKILL)
    thread.join()
    done = time.monotonic() - kill
    logger.removeHandler(stages)
    noticed = next((t - kill for t in stages.ended if t > kill), None)
    again = next((t - kill for t in stages.begun if t > kill), None)
    outcome = told[0] if told else "same" if bytes_of(model) == expected else "OTHER BYTES"
    shown = ["" if t is None else f"{t:.1f}" for t in (noticed, again, done)]
    return [f"{moment:.2f}", within, *shown, str(len(stages.begun)), outcome], done


def all_of(client, n, gone):
    """Return the processes of all workers, once one is in the place of that which is `gone`."""
    while True:
        pids = list(client.run(os.getpid, on_error="ignore").values())
        if len(pids) == n and gone not in pids:
            return pids
        time.sleep(0.2)


def all_kills(arguments, expected, make, rows, rng):
    """Yield the line and the seconds of each kill."""
    import dask
    from dask import array as da
    from distributed import Client, LocalCluster

    # On a busy machine Dask would treat a slow start of a worker as a failure.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"})
    n = arguments.workers
    quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    cluster = LocalCluster(n_workers=n, threads_per_worker=1, memory_limit=0, **quiet)
    chunk = -(-len(rows[0]) // 10)
    with cluster, Client(cluster) as client:
        X = da.from_array(rows[0], chunks=(chunk, -1))
        y = da.from_array(rows[1], chunks=chunk)
        make().fit(X, y)
        begun = time.monotonic()
        make().fit(X, y)
        takes = time.monotonic() - begun
        pid = None
        for _ in range(arguments.kills):
            pid = rng.choice(all_of(client, n, gone=pid))
            moment = rng.random() * takes
            yield killed(make, (X, y), pid, moment, expected)
            all_of(client, n, gone=pid)
            make().set_params(n_estimators=1).fit(X, y)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rows", type=int, default=900)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    from streamboost.dask import DaskSketchLogitBoostClassifier

    logging.getLogger("streamboost.dask.training").setLevel(logging.INFO)
    logging.getLogger("streamboost.dask.training").propagate = False
    settings = {"n_estimators": arguments.rounds, "random_state": 1}
    rows = made_up(arguments.rows, 20, 3)[:2]
    expected = bytes_of(SketchLogitBoostClassifier(**settings).fit(*rows))
    table = Table(title=f"A worker of {arguments.workers} killed", title_justify="left")
    for heading in ("at, s", "within", "given up", "again", "done", "attempts", "committee"):
        table.add_column(heading)
    most, wrong = 0.0, 0
    rng = np.random.default_rng(arguments.seed)
    lines = all_kills(
        arguments, expected, lambda: DaskSketchLogitBoostClassifier(**settings), rows, rng
    )
    for line, seconds in lines:
        print(*line, sep="\t", file=sys.stderr, flush=True)
        table.add_row(*line)
        most, wrong = max(most, seconds), wrong + (line[-1] == "OTHER BYTES")
    Console(width=110).print(table)
    print(f"The longest took {most:.1f} s, of {SECONDS} that it may; other bytes: {wrong}.")
    sys.exit(int(wrong > 0 or most > SECONDS))


if __name__ == "__main__":
    main()
