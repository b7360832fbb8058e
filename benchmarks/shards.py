"""What threads and Dask workers take off a training: wall time, of the same committee.

    python -m benchmarks.shards [--rows 1000000] [--rounds 20] [--repeats 3] [--dask 1 2]

Rows are made up, 20 columns and 3 classes, as in `time_to_error`. Each line is a way to train, and
all take turns; the medians of wall and of CPU time are of one round, a training of few rounds being
taken off one of many, and the first column is how many times as fast it is as one thread. With
--dask LightGBM and XGBoost train on the same LocalCluster, to 15 leaves (`lightgbm.dask`,
`xgboost.dask`), and the last column is the test error after all rounds. On a machine with other
work the ratios mean little.
"""

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.time_to_error import made_up
from streamboost import SketchLogitBoostClassifier

FEW = 2


def one_machine(n_jobs):
    return lambda rounds: SketchLogitBoostClassifier(
        n_estimators=rounds, random_state=0, n_jobs=n_jobs
    )


def on_dask(client):
    import dask.array as da
    from lightgbm import DaskLGBMClassifier
    from xgboost.dask import DaskXGBClassifier

    from streamboost.dask import DaskSketchLogitBoostClassifier

    makers = {
        "streamboost": lambda rounds: DaskSketchLogitBoostClassifier(
            n_estimators=rounds, random_state=0, client=client
        ),
        "LightGBM": lambda rounds: DaskLGBMClassifier(
            n_estimators=rounds, num_leaves=15, n_jobs=1, verbose=-1, client=client
        ),
        "XGBoost": lambda rounds: DaskXGBClassifier(
            n_estimators=rounds, max_leaves=15, max_depth=0, grow_policy="lossguide",
            tree_method="hist", n_jobs=1, learning_rate=0.1,
        ),
    }  # fmt: skip

    def spread(X, y, n_workers):
        rows = -(-len(X) // (2 * n_workers))
        both = [da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows)]
        return client.persist(both)

    return makers, spread


def measured(make, X, y, rounds, X_test, y_test):
    """Wall and CPU seconds of a round, and the test error."""
    taken = []
    for n in (FEW, rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        model = make(n).fit(X, y)
        taken.append((time.perf_counter() - wall, time.process_time() - cpu))
    (few_wall, few_cpu), (wall, cpu) = taken
    if type(model).__name__.startswith("Dask"):
        import dask.array as da

        X_test = da.from_array(X_test)
    error = float((np.asarray(model.predict(X_test)) != y_test).mean())
    return (wall - few_wall) / (rounds - FEW), (cpu - few_cpu) / (rounds - FEW), wall, error


def all_ways(arguments, X, y, X_test, y_test):
    """Yield the name of each way and what it took, in turn."""
    for _ in range(arguments.repeats):
        for n_jobs in arguments.threads:
            taken = measured(one_machine(n_jobs), X, y, arguments.rounds, X_test, y_test)
            yield f"{n_jobs} threads", taken
        for n_workers in arguments.dask:
            from distributed import Client, LocalCluster

            cluster = LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
            )
            with cluster, Client(cluster) as client:
                makers, spread = on_dask(client)
                rows = spread(X, y, n_workers)
                for name, make in makers.items():
                    make(1).fit(*rows)  # loads what it needs
                    taken = measured(make, *rows, arguments.rounds, X_test, y_test)
                    yield f"{name}, {n_workers} Dask workers", taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--dask", type=int, nargs="*", default=[])
    arguments = parser.parse_args()
    data = made_up(arguments.rows, 20, 3)
    one_machine(max(arguments.threads))(1).fit(*data[:2])  # compiles
    found = {}
    for name, taken in all_ways(arguments, *data):
        found.setdefault(name, []).append(taken)
    table = Table(title=f"{arguments.rows} rows, {arguments.rounds} rounds", title_justify="left")
    for heading in (
        "way",
        "times as fast",
        "wall s/round",
        "CPU s/round",
        "fit, wall s",
        "error %",
    ):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    medians = {name: np.median(taken, axis=0) for name, taken in found.items()}
    first = next(iter(medians.values()))
    for name, (wall, cpu, whole, error) in medians.items():
        cells = [f"{first[0] / wall:.2f}", f"{wall:.3f}", f"{cpu:.3f}", f"{whole:.1f}"]
        table.add_row(name, *cells, f"{100 * error:.2f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
