"""Speed-up of a training by threads and Dask workers: wall time, of the same committee.

    python -m benchmarks.shards [--rows 1000000] [--rounds 20] [--repeats 2] [--threads 1 2]
        [--dask 1 2] [--equal 50]

Rows are generated, with 20 columns and 3 classes, as in `time_to_error`. Each line of the first
table is a way to train, and all alternate. Medians of wall time and of CPU time (of all processes
that train) are given per round and for a whole fit. The time per round is that of many rounds minus
that of few. Ratios refer to the first line of the kind: one thread, or the fewest workers. LightGBM
and XGBoost train on the same LocalCluster, to 15 leaves (`lightgbm.dask`, `xgboost.dask`). The last
column is the test error after all rounds.

The second table is the time to equal error on the most workers. The target is LightGBM's test error
after `--equal` rounds, plus one test row. Each model trains the fewest rounds that reach the
target. For the others that number follows from their longer training; this project trains once for
each number of rounds in a grid. `--equal 0` leaves the table out, and `--dask` without a number
leaves out Dask. The ratios mean little on a machine with other load. A million rows take some ten
minutes on two idle cores.
"""

import argparse
import time
from contextlib import contextmanager

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.time_to_error import made_up
from streamboost import SketchLogitBoostClassifier

FEW = 2
OUR_GRID = [*range(10, 50, 5), *range(50, 120, 10)]


def one_machine(n_jobs):
    return lambda rounds: SketchLogitBoostClassifier(
        n_estimators=rounds, random_state=0, n_jobs=n_jobs
    )


def on_dask(client):
    """Return functions of n that train n rounds on Dask, by name."""
    from lightgbm import DaskLGBMClassifier
    from xgboost.dask import DaskXGBClassifier

    from streamboost.dask import DaskSketchLogitBoostClassifier

    return {
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


@contextmanager
def cluster_of(n_workers, X, y):
    """Yield the client of a LocalCluster, and rows distributed over its workers."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    cluster = LocalCluster(
        n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", memory_limit=0
    )
    with cluster, Client(cluster) as client:
        chunk = -(-len(X) // (2 * n_workers))
        rows = client.persist(
            [da.from_array(X, chunks=(chunk, -1)), da.from_array(y, chunks=chunk)]
        )
        wait(rows)
        client.rebalance(rows)
        yield client, rows


def cpu_of(client=None):
    """CPU seconds of this process, and of all workers."""
    theirs = client.run(time.process_time).values() if client is not None else ()
    return time.process_time() + sum(theirs)


def timed(make, rounds, X, y, client=None):
    """Train; return the model, and the wall and CPU seconds it took."""
    cpu, wall = cpu_of(client), time.perf_counter()
    model = make(rounds).fit(X, y)
    wall = time.perf_counter() - wall
    return model, wall, cpu_of(client) - cpu


def local(model):
    """Return a model of Dask's as one that predicts arrays."""
    if hasattr(model, "to_local"):  # ours, and LightGBM's
        return model.to_local()
    if not hasattr(model, "get_booster"):
        return model
    from xgboost import XGBClassifier

    own = XGBClassifier()
    own.load_model(model.get_booster().save_raw("json"))
    return own


def measured(make, X, y, rounds, X_test, y_test, client=None):
    """Wall and CPU seconds of a round and of a fit, and the test error."""
    _, few_wall, few_cpu = timed(make, FEW, X, y, client)
    model, wall, cpu = timed(make, rounds, X, y, client)
    error = float((local(model).predict(X_test) != y_test).mean())
    n = rounds - FEW
    return (wall - few_wall) / n, (cpu - few_cpu) / n, wall, cpu, error


def all_ways(arguments, X, y, *test):
    """Yield the kind and number of each way and what it took, in turn."""
    for _ in range(arguments.repeats):
        for n_jobs in arguments.threads:
            yield ("threads", n_jobs), measured(one_machine(n_jobs), X, y, arguments.rounds, *test)
        for n_workers in arguments.dask:
            with cluster_of(n_workers, X, y) as (client, rows):
                for name, make in on_dask(client).items():
                    make(1).fit(*rows)  # loads modules and compiles
                    taken = measured(make, *rows, arguments.rounds, *test, client)
                    yield (f"{name}, Dask", n_workers), taken


def staged(name, model, X_test, y_test):
    """Test error of a peer after each of its rounds."""
    own, errors = local(model), []
    for rounds in range(1, model.n_estimators + 1):
        first = {"num_iteration": rounds}
        if name == "XGBoost":
            first = {"iteration_range": (0, rounds)}
        errors.append(float((own.predict(X_test, **first) != y_test).mean()))
    return errors


def equal_error(arguments, X, y, X_test, y_test):
    """Yield the name of each library, its rounds, wall and CPU seconds, and error at the target."""
    with cluster_of(max(arguments.dask), X, y) as (client, rows):
        makers = on_dask(client)
        for make in makers.values():
            make(1).fit(*rows)
        first = makers["LightGBM"](arguments.equal).fit(*rows)
        target = staged("LightGBM", first, X_test, y_test)[-1] + 1 / len(y_test)
        for rounds in OUR_GRID:
            model, *taken = timed(makers["streamboost"], rounds, *rows, client)
            error = float((model.to_local().predict(X_test) != y_test).mean())
            if error <= target:
                break
        yield "streamboost", rounds, *taken, error
        for name, most in (("LightGBM", arguments.equal), ("XGBoost", 3 * arguments.equal)):
            longest = makers[name](most).fit(*rows)
            errors = staged(name, longest, X_test, y_test)
            rounds = next((r for r, e in enumerate(errors, 1) if e <= target), most)
            _, *taken = timed(makers[name], rounds, *rows, client)
            yield name, rounds, *taken, errors[rounds - 1]


def show(title, headings, lines):
    table = Table(title=title, title_justify="left")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i else "left")
    for line in lines:
        table.add_row(*line)
    Console(width=120).print(table)


def compared(found):
    """Yield the lines of the first table."""
    medians = {way: np.median(taken, axis=0) for way, taken in found.items()}
    for (kind, n), (wall, cpu, whole, whole_cpu, error) in medians.items():
        first = next(taken for way, taken in medians.items() if way[0] == kind)
        ratios = [f"{first[0] / wall:.2f}", f"{first[2] / whole:.2f}"]
        seconds = [f"{wall:.3f}", f"{cpu:.3f}", f"{whole:.1f}", f"{whole_cpu:.1f}"]
        yield f"{kind}: {n}", *ratios, *seconds, f"{100 * error:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--dask", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--equal", type=int, default=50)
    arguments = parser.parse_args()
    data = made_up(arguments.rows, 20, 3)
    one_machine(max(arguments.threads, default=1))(1).fit(*data[:2])  # compiles
    found = {}
    for way, taken in all_ways(arguments, *data):
        found.setdefault(way, []).append(taken)
    show(
        f"{arguments.rows} rows, {arguments.rounds} rounds",
        ["way", "a round: times as fast", "a fit", "round, wall s", "CPU s", "fit, wall s",
         "CPU s", "error %"],
        compared(found),
    )  # fmt: skip
    if arguments.dask and arguments.equal:
        lines = [
            (name, str(rounds), f"{wall:.1f}", f"{cpu:.1f}", f"{100 * error:.2f}")
            for name, rounds, wall, cpu, error in equal_error(arguments, *data)
        ]
        title = f"LightGBM's error after {arguments.equal} rounds, {max(arguments.dask)} workers"
        show(title, ["library", "rounds", "fit, wall s", "CPU s", "error %"], lines)


if __name__ == "__main__":
    main()
