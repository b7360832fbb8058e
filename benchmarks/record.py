"""Ten figures of speed in one file, to compare two states of the project.

    python -m benchmarks.record [--out FILE] [--against FILE] [--turns 5] [--figures NAME ...]
    python -m benchmarks.record --page FILE.md --from benchmarks/record.json

Each turn measures every figure once, each in a process of its own. A figure is a cost: lower is
better. Every sample is taken between two samples of a fixed calibration load that uses none of
this project's code. The comparison uses the quotient of both, so the speed of the machine on
a given day cancels out. The file holds all samples, the machine and the commit.

`--against FILE` names each figure whose median quotient grew by more than its noise: three standard
errors of the difference of the medians (from the median absolute deviation of the turns), and at
least `LEAST` of the older median. The exit status is 1 if a figure became slower.

`--page` writes the table of FILE between the marks of a documentation page. Run it alone: other
load on the machine widens the noise. The Kafka figure starts a broker (Java and Maven); if it
cannot, the figure is left out with a message.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
LEAST = 0.08
"""Share of the older median below which a difference is never named."""
BEGIN, END = "<!-- record -->", "<!-- end of record -->"
FEATURES, CLASSES = 16, 8


def calibrate():
    """Return the CPU seconds of a fixed load: interpreter, memory and floating point."""
    rng = np.random.default_rng(0)
    values = rng.random(200_000)
    start = time.process_time()
    total = 0
    for i in range(300_000):
        total += i % 7
    for _ in range(4):
        np.sort(values)
        np.exp(values).sum()
    json.loads(json.dumps(values[:20_000].tolist()))
    return time.process_time() - start


def repeated(run, n):
    """Return samples of a cost, each as (cost, quotient by the calibration around it)."""
    run()  # compiles and loads
    samples, before = [], calibrate()
    for _ in range(n):
        cost = run()
        after = calibrate()
        samples.append((cost, cost / ((before + after) / 2)))
        before = after
    return samples


def cpu(call, times):
    """Return a function that gives the mean CPU seconds of `times` calls."""

    def run():
        start = time.process_time()
        for _ in range(times):
            call()
        return (time.process_time() - start) / times

    return run


def made(n, n_features, n_classes):
    """Return normal columns, and classes by a noisy linear function of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, n_features)).astype(np.float32)
    scores = X @ rng.standard_normal((n_features, n_classes))
    return X, (scores + 1.5 * rng.standard_normal((n, n_classes))).argmax(axis=1)


def training(n, n_features, n_classes, times):
    from streamboost.learner.estimators import default_estimator

    X, y = made(n, n_features, n_classes)
    return repeated(cpu(lambda: default_estimator().train(X, y, seed=0), times), 5)


def train_few():
    return training(300, 20, 3, 20)


def train_many():
    return training(5_000, 20, 3, 3)


def score_batch():
    from streamboost import SketchLogitBoostClassifier

    X, y = made(5_000, 20, 3)
    committee = SketchLogitBoostClassifier(random_state=0).fit(X, y).committee_
    return [
        (cost / len(X), quotient / len(X))
        for cost, quotient in repeated(cpu(lambda: committee.class_scores(X), 20), 5)
    ]


def score_one():
    from streamboost import SketchLogitBoostClassifier

    X, y = made(5_000, 20, 3)
    committee = SketchLogitBoostClassifier(random_state=0).fit(X, y).committee_
    return repeated(cpu(lambda: committee.class_scores(X[:1]), 3_000), 5)


def river_stream():
    from itertools import islice

    from river import datasets

    from streamboost.adapters.river import StreamBoostClassifier

    stream = list(islice(datasets.ImageSegments(), 2_000))

    def run():
        model = StreamBoostClassifier(seed=1)
        start = time.process_time()
        for x, y in stream:
            model.predict_one(x)
            model.learn_one(x, y)
        return (time.process_time() - start) / len(stream)

    return repeated(run, 3)


def river_predict():
    from itertools import islice

    from river import datasets

    from streamboost.adapters.river import StreamBoostClassifier

    stream = list(islice(datasets.ImageSegments(), 2_000))
    model = StreamBoostClassifier(seed=1)
    for x, y in stream[:1_500]:
        model.learn_one(x, y)

    def run():
        start = time.process_time()
        for x, _ in stream[1_500:]:
            model.predict_one(x)
        return (time.process_time() - start) / 500

    return repeated(run, 5)


def records(start, n):
    """Return `n` records around class centres as JSON lines, and their classes."""
    rng = np.random.default_rng(start)
    y = rng.integers(0, CLASSES, n)
    centres = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))
    X = (centres[y] + rng.normal(size=(n, FEATURES))).round(4).tolist()
    lines = [
        json.dumps({"id": f"r{start + i}", **{f"x{k}": v for k, v in enumerate(row)}})
        for i, row in enumerate(X)
    ]
    return lines, y.tolist()


PIPELINE = """
[pipeline]
name = "record"
[source]
connector = "files"
path = "records.jsonl"
[labels]
connector = "files"
path = "labels.jsonl"
[query]
budget = 0.01
"""


def written(folder, n, labelled):
    """Write a pipeline file with `n` records, and a label for one in `labelled` of them."""
    lines, y = records(0, n)
    labels = [json.dumps({"id": f"r{i}", "label": f"c{y[i]}"}) for i in range(0, n, labelled)]
    (folder / "p.toml").write_text(PIPELINE)
    (folder / "records.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "labels.jsonl").write_text("".join(f"{line}\n" for line in labels))


def ran(folder):
    """Run the pipeline in `folder`; return (CPU seconds, records) at each commit."""
    from streamboost.pipelines.app import run as assembly
    from streamboost.pipelines.cli.heap import freeze_gc_after_recovery
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.runner.observers import Observer

    commits = []

    class Clock(Observer):
        def on_commit(self, effects):
            commits.append((time.process_time(), len(effects.records)))

    with freeze_gc_after_recovery() as freezer:
        assembly.run(load(folder / "p.toml"), until_idle=True, observers=[Clock(), freezer])
    return commits


def pipeline():
    """Run files to SQLite, one label in a hundred: CPU seconds a record after the first batches."""

    def run():
        with tempfile.TemporaryDirectory() as name:
            written(Path(name), 20_000, labelled=100)
            (begun, _), *rest = ran(Path(name))[10:]
        return (rest[-1][0] - begun) / sum(n for _, n in rest)

    return repeated(run, 3)


def kafka():
    """Compare a pipeline over Kafka with a bare transactional loop in the same run."""
    from benchmarks import kafka_pipeline as bench
    from streamboost.connectors.kafka.admin import create_topics
    from streamboost.connectors.kafka.cluster import KafkaCluster
    from streamboost.connectors.kafka.topic import KafkaSource
    from tests.broker.broker import Broker, missing

    if lacking := missing():
        raise LookupError(lacking)
    n, batch, quotients = 20_000, 500, []
    with tempfile.TemporaryDirectory() as name, Broker(Path(name)) as broker:
        cluster = KafkaCluster(broker.servers)
        file = bench.prepare(cluster, Path(name) / "kafka", "kafka", batch)
        create_topics(cluster, {"kafka.bare": {}})
        source = KafkaSource(cluster, "kafka.predictions")
        payload = source.poll(1)[0].payload
        source.close()
        for turn in range(3):
            start = bench.TAUGHT + turn * n
            bench.put(cluster, "kafka.records", bench.messages(start, n)[0])
            least = bench.bare(cluster, "kafka", "kafka.records", start, payload, batch, n)
            rate, _ = bench.whole(file)
            quotients.append(least / rate)
    return [(quotient, quotient) for quotient in quotients[1:]]


def command():
    """Run `streamboost --help` in a process of its own."""
    import resource

    def run():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = [sys.executable, "-m", "streamboost.pipelines.cli", "--help"]
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return repeated(run, 5)


def http():
    """Ask `streamboost serve` for predictions of one record: CPU seconds of the server for each."""
    from http.client import HTTPConnection
    from urllib.parse import urlsplit

    from benchmarks.lookers import started

    if sys.platform != "linux":
        raise LookupError("only Linux has a clock of another process' CPU time")
    asked = 300
    body = json.dumps({"records": [{f"x{k}": 0.1 * k for k in range(FEATURES)}]})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, 3_000, labelled=5)
        ran(folder)
        serve = [sys.executable, "-m", "streamboost.pipelines.cli", "serve", "p.toml", "--port=0"]
        with started(serve, folder) as server:
            place = urlsplit(server.stdout.readline().split(": ", 1)[1].strip())
            token = (folder / "state" / "serve.token").read_text().strip()
            client = HTTPConnection(place.hostname, place.port)
            clock = (~server.pid << 3) | 2  # as clock_getcpuclockid(3) gives it
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

            def run():
                before = time.clock_gettime(clock)
                for _ in range(asked):
                    time.sleep(0.005)  # more a second are refused
                    client.request("POST", "/api/v1/pipelines/record/predict", body, headers)
                    answer = client.getresponse()
                    if answer.read() and answer.status != 200:
                        raise RuntimeError(f"a prediction was answered with {answer.status}")
                return (time.clock_gettime(clock) - before) / asked

            samples = repeated(run, 4)
            client.close()
    return samples


FIGURES = {
    "train-300": (train_few, 1e3, "ms", "Train 150 rounds on 300 rows, 20 columns, 3 classes"),
    "train-5000": (train_many, 1e3, "ms", "Train 150 rounds on 5,000 rows, 20 columns, 3 classes"),
    "score-batch": (score_batch, 1e6, "µs", "Score one of 5,000 rows in a batch"),
    "score-one": (score_one, 1e6, "µs", "Score a single row"),
    "river": (river_stream, 1e6, "µs", "River: predict and learn a record of ImageSegments"),
    "river-predict": (river_predict, 1e6, "µs", "River: `predict_one` after 1,500 labels"),
    "pipeline": (pipeline, 1e6, "µs", "Pipeline, files to SQLite: a record, 1 % of the labels"),
    "kafka": (kafka, 1, "times", "Pipeline over Kafka: time of a bare transactional loop"),
    "http": (http, 1e6, "µs", "A prediction over HTTP: CPU of `streamboost serve`"),
    "command": (command, 1e3, "ms", "`streamboost --help`"),
}
"""Functions that measure the figures (in seconds), factor to the unit, unit, and meaning."""


def measured(name):
    """Return the samples of a figure from its own process, or print the reason and return None."""
    words = [sys.executable, "-m", "benchmarks.record", "--one", name]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode == 3:
        print(f"{name} is left out: {done.stdout.strip()}", file=sys.stderr)
        return None
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


def spread(values):
    """Return the standard error of the median of values, from their median absolute deviation."""
    middle = median(values)
    deviation = 1.4826 * median(abs(value - middle) for value in values)
    return 1.2533 * deviation / len(values) ** 0.5


def record(names, turns):
    """Measure each figure `turns` times; return the document."""
    samples = {name: [] for name in names}
    begun = time.perf_counter()
    for turn in range(turns):
        for name in names:
            if samples[name] is not None:
                found = measured(name)
                samples[name] = None if found is None else [*samples[name], found]
        print(f"turn {turn + 1} of {turns}: {time.perf_counter() - begun:.0f} s", file=sys.stderr)
    figures = {}
    for name, found in samples.items():
        if found is None:
            continue
        _, factor, unit, meaning = FIGURES[name]
        # The median of a turn is one observation: samples of one process are not independent.
        costs = [factor * median(cost for cost, _ in turn) for turn in found]
        quotients = [median(quotient for _, quotient in turn) for turn in found]
        figures[name] = {
            "meaning": meaning,
            "unit": unit,
            "median": median(costs),
            "quotient": median(quotients),
            "error": spread(quotients),
            "costs": costs,
            "quotients": quotients,
        }
    return {"made": datetime.now(UTC).isoformat("T", "seconds"), **where(), "figures": figures}


def where():
    """Return the commit and the machine."""

    def git(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    processor = platform.processor()
    if (info := Path("/proc/cpuinfo")).exists():
        found = re.search(r"model name\s*: (.*)", info.read_text())
        processor = found[1] if found else processor
    return {
        "commit": git("rev-parse", "--short=10", "HEAD"),
        "changed": bool(git("status", "--porcelain", "--", "*.py")),
        "machine": {
            "processor": processor,
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
    }


def differences(new, old):
    """Return a row a figure: name, old, new, change, noise, and whether it is slower."""
    rows = []
    for name, figure in new["figures"].items():
        if (before := old["figures"].get(name)) is None:
            continue
        change = figure["quotient"] / before["quotient"] - 1.0
        errors = (figure["error"] ** 2 + before["error"] ** 2) ** 0.5
        noise = max(LEAST, 3.0 * errors / before["quotient"])
        rows.append((name, before["median"], figure["median"], change, noise, change > noise))
    return rows


def show(document):
    table = Table(title=f"CPU time at commit {document['commit']}", title_justify="left")
    for heading in ("figure", "median", "unit", "of its noise", "what"):
        table.add_column(heading, justify="right" if heading == "median" else "left")
    for name, one in document["figures"].items():
        error = f"± {one['error'] / one['quotient']:.1%}"
        table.add_row(name, f"{one['median']:.4g}", one["unit"], error, one["meaning"])
    Console(width=110).print(table)


def compare(new, old):
    """Print the comparison; return whether a figure became slower beyond noise."""
    table = Table(title=f"{old['commit']} and {new['commit']}", title_justify="left")
    for heading in ("figure", "before", "now", "change", "noise", ""):
        table.add_column(heading, justify="left" if heading in ("figure", "") else "right")
    rows = differences(new, old)
    for name, before, now, change, noise, slower in rows:
        word = "SLOWER" if slower else "faster" if change < -noise else ""
        cells = f"{before:.4g}", f"{now:.4g}", f"{change:+.1%}", f"{noise:.1%}"
        table.add_row(name, *cells, word)
    Console(width=110).print(table)
    slower = [name for name, *_, is_slower in rows if is_slower]
    print(f"slower: {', '.join(slower)}" if slower else "no figure became slower beyond noise")
    return bool(slower)


def page(document):
    """Return the documentation's table of a document, between its marks."""
    machine = document["machine"]
    lines = [
        BEGIN,
        f"Measured at commit {document['commit']} on {machine['cores']} cores "
        f"({machine['processor']}), Python {machine['python']}:",
        "",
        "| figure | median | standard error |",
        "|---|---|---|",
        *(
            f"| {one['meaning']} | {one['median']:.3g} {one['unit']} "
            f"| {one['error'] / one['quotient']:.1%} |"
            for one in document["figures"].values()
        ),
        END,
    ]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build") / "benchmarks" / "record.json")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--figures", nargs="+", choices=FIGURES, default=list(FIGURES))
    parser.add_argument("--page", type=Path)
    parser.add_argument("--from", type=Path, dest="source")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        try:
            print(json.dumps(FIGURES[given.one][0]()))
        except LookupError as error:
            print(error)
            sys.exit(3)
        return
    if given.page:
        text = given.page.read_text()
        table = page(json.loads((given.source or given.out).read_text()))
        given.page.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: table, text, flags=re.DOTALL))
        return
    document = record(given.figures, given.turns)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(document, indent=1) + "\n")
    show(document)
    if given.against and compare(document, json.loads(given.against.read_text())):
        sys.exit(1)


if __name__ == "__main__":
    main()
