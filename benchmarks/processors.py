"""Bits of other x86-64 processors: which part differs, and what equal bits would cost.

    python -m benchmarks.processors [--rows 4000] [--turns 5]

One machine simulates others: each line of the table runs the same work in a process in which a
part is told that it runs on an older processor: the kernels (NUMBA_CPU_NAME), numpy
(NPY_DISABLE_CPU_FEATURES), OpenBLAS (OPENBLAS_CORETYPE) or the C library (GLIBC_TUNABLES). A cell
says whether the stage's result has the same bits as without that. "strict" compiles the kernels
without the permission to reorder sums and to fuse a product with a sum.

The second table has the cost of "strict": CPU seconds of training and scoring, the medians of the
turns.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

OLDER = {
    "kernels": {"NUMBA_CPU_NAME": "generic"},
    "kernels, AVX2": {"NUMBA_CPU_NAME": "haswell"},
    "numpy": {
        "NPY_DISABLE_CPU_FEATURES": " ".join(
            np.show_config("dicts")["SIMD Extensions"].get("found", [])
        )
    },
    "OpenBLAS": {"OPENBLAS_CORETYPE": "Nehalem"},
    "C library": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-AVX"},
}
"""Environment variables by the part that they affect."""


def data(n_rows, n_columns, n_classes):
    """Return float32 rows around class centres, some values missing, and their classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n_rows)
    centres = rng.normal(size=(n_classes, n_columns))
    X = (centres[y] + 1.5 * rng.normal(size=(n_rows, n_columns))).astype(np.float32)
    X[rng.random(X.shape) < 0.02] = np.nan
    return X, y


def digest(*arrays):
    """Return the SHA-256, as hex, of arrays."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def digest_of_state(owner):
    arrays = owner.to_arrays()
    return digest(*(arrays[name] for name in sorted(arrays)))


def run_stages(n_rows, *, strict):
    """Return the digest of each stage's result, and the CPU seconds of training and scoring."""
    from streamboost.kernels import jit

    if strict:
        jit.fastmath_kernel = jit.inner_kernel
    import streamboost
    from streamboost.learner.learner import StreamLearner

    found, seconds = {}, {}
    X, y = data(n_rows, 20, 8)
    for name in ("SketchLogitBoost", "Gamble", "AOSOLogitBoost"):
        model = getattr(streamboost, f"{name}Classifier")(n_estimators=20, random_state=0)
        found[name] = digest_of_state(model.fit(X, y).committee_)
    for n_classes in (3, 8, 26):
        seconds[f"train, {n_classes} classes"] = time_training(2 * n_rows, n_classes)
    committee = streamboost.SketchLogitBoostClassifier(random_state=0).fit(X, y).committee_
    saved = Path(os.environ["PROCESSORS_MODEL"])
    if not saved.exists():
        committee.save(saved)
    committee = type(committee).load(saved)  # of one process, so that scoring alone is compared
    start = time.process_time()
    for _ in range(10):
        scores = committee.class_scores(X)
    seconds["score"] = time.process_time() - start
    found["score"] = digest(scores)
    found["probabilities"] = digest(committee.probabilities(scores))
    found["contributions"] = digest(committee.contributions(X[:100]))
    learner = StreamLearner(random_state=0)
    probabilities = []
    for start in range(0, 1_000, 50):
        rows = slice(start, start + 50)
        ids = [str(i) for i in range(start, start + 50)]
        arrived = learner.score_arrivals(X[rows])
        probabilities.append(learner.score(X[rows]).probabilities if start else np.zeros(0))
        learner.query(X[rows], arrived, ids)
        learner.learn(ids[::2], X[rows][::2], y[rows][::2])
    found["stream"] = digest(*probabilities)
    return {"digests": found, "seconds": seconds}


def time_training(n_rows, n_classes):
    """Return the CPU seconds of one training of 150 rounds."""
    from streamboost import SketchLogitBoostClassifier

    X, y = data(n_rows, 20, n_classes)
    model = SketchLogitBoostClassifier(n_estimators=150, random_state=0)
    model.fit(X[:500], y[:500])  # compiles
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def measure(rows, folder, *, strict=False, **variables):
    """Run the stages in a process with `variables`; return its digests and seconds."""
    command = [sys.executable, "-m", "benchmarks.processors", "--child", "--rows", str(rows)]
    cache = folder / f"cache-{variables.get('NUMBA_CPU_NAME', 'host')}-{strict}"
    environment = {"NUMBA_CACHE_DIR": str(cache), "PROCESSORS_MODEL": str(folder / "model")}
    done = subprocess.run(
        [*command, *(["--strict"] if strict else [])],
        env={**os.environ, **environment, **variables},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--strict", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(run_stages(arguments.rows, strict=arguments.strict)))
        return
    console = Console(width=130)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = Table(title="The same bits as on this processor", title_justify="left")
        table.add_column("older")
        for strict in (False, True):
            here = measure(arguments.rows, folder, strict=strict)["digests"]
            if not strict:
                for stage in here:
                    table.add_column(stage)
            for part, variables in OLDER.items():
                there = measure(arguments.rows, folder, strict=strict, **variables)["digests"]
                same = ["same" if there[stage] == here[stage] else "OTHER" for stage in here]
                table.add_row(f"{part}{', strict' if strict else ''}", *same)
        console.print(table)
        turns = []
        for turn in range(arguments.turns):
            order = (False, True) if turn % 2 else (True, False)  # the second is a little slower
            seconds = {s: measure(arguments.rows, folder, strict=s)["seconds"] for s in order}
            turns.append((seconds[False], seconds[True]))
    table = Table(title="CPU seconds, and the quotient", title_justify="left")
    for column in ("stage", "as built", "strict", "quotient"):
        table.add_column(column)
    for stage in turns[0][0]:
        built, strict = (median(turn[i][stage] for turn in turns) for i in (0, 1))
        table.add_row(stage, f"{built:.3f}", f"{strict:.3f}", f"{strict / built:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
