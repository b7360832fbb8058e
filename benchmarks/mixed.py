"""Accuracy and speed of `streamboost run` on mixed records, compared with other online learners.

    python -m benchmarks.mixed [--sets adult sms news] [--rows N] [--seeds 3] [--speed]

Records are JSON Lines with numbers, categories, nested fields and texts. The pipeline file names
only paths, one record per batch and the source of the labels; all fields are inferred. Accuracy is
that of the predictions on arrival, over all records and over their second half. It is given with
every label, and with 10 % of the labels: streamboost requests them by margin, the others get a
random 10 % (means over the seeds). The other learners, in the same run:

- Vowpal Wabbit (`--oaa --ngram 2`, logistic), one by one;
- River's `BagOfWords((1, 2)) | MultinomialNB`, one by one, on texts;
- LightGBM on categories and numbers, with its own settings, retrained whenever the labels have
  grown by a tenth, or by 500.

`--speed` measures records per second of CPU in batches of 100, at the default budget, without the
startup time of the process.
"""

import argparse
import gzip
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.data import FOLDER
from streamboost.connectors.sqlite.stream import SqliteSource

TEXTS = {"sms": ["text"], "news": ["title", "body"], "adult": []}
SHARE = 0.1
FILE = """
[pipeline]
name = "{name}"
state = "state"
seed = {seed}
batch_records = {batch}
[source]
connector = "files"
path = "records.jsonl"
[labels]
connector = "oracle"
path = "answers.jsonl"
answer = "{of}"
[query]
budget = {budget}
"""


def load(name, rows):
    """Return the records of a set as dictionaries, None where it is missing."""
    path = FOLDER / f"{name}.jsonl.gz"
    if not path.exists():
        return None
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines][:rows]


def flat(record, prefix=""):
    """Return a record's fields under names with dots, without id and label."""
    found = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{name}.")
        elif value is not None and name not in ("id", "label"):
            found[prefix + name] = value
    return found


def halves(right):
    """Return the accuracy over all and over the second half, in per cent."""
    return 100 * np.mean(right), 100 * np.mean(right[len(right) // 2 :])


def run(name, records, *, of, budget, batch=1, seed=0):
    """Return whether `streamboost run` predicted each record right, and its CPU seconds."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with (folder / "records.jsonl").open("w") as out, (folder / "answers.jsonl").open("w") as a:
            for record in records:
                fields = {key: value for key, value in record.items() if key != "label"}
                out.write(json.dumps(fields) + "\n")
                a.write(json.dumps({"id": record["id"], "label": record["label"]}) + "\n")
        text = FILE.format(name=name, of=of, budget=budget, batch=batch, seed=seed)
        (folder / "pipeline.toml").write_text(text)
        command = [
            sys.executable,
            "-m",
            "streamboost.pipelines.cli.__main__",
            "run",
            "--until-idle",
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "pipeline.toml"], cwd=folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        source = SqliteSource(folder / "state" / "log.db", "predictions")
        messages = [json.loads(message.payload) for message in source.poll(len(records))]
        said = {prediction["id"]: prediction["label"] for prediction in messages}
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return [said[record["id"]] == record["label"] for record in records], cpu


def vowpal(name, records, taught):
    """Return whether Vowpal Wabbit predicted each record right."""
    import vowpalwabbit

    classes = sorted({record["label"] for record in records})
    place = {label: k + 1 for k, label in enumerate(classes)}
    model = vowpalwabbit.Workspace(
        f"--oaa {len(classes)} --ngram 2 --loss_function logistic -b 18 --quiet"
    )
    right = []
    for record, learn in zip(records, taught, strict=True):
        features = []
        for field, value in flat(record).items():
            if field in TEXTS[name]:
                features += re.sub(r"[|:\s]+", " ", value.lower()).split()
            elif isinstance(value, bool | str) and not str(value).isdigit():
                features.append(re.sub(r"[|:\s]+", "_", f"{field}={value}"))
            else:
                features.append(f"{field}:{float(value) / 100:.6g}")
        line = f" |f {' '.join(features)}"
        right.append(model.predict(line) == place[record["label"]])
        if learn:
            model.learn(f"{place[record['label']]}{line}")
    model.finish()
    return right


def bayes(name, records, taught):
    """Return whether River's naive Bayes predicted each record right; None without texts."""
    if not TEXTS[name]:
        return None
    from river import feature_extraction, naive_bayes

    model = feature_extraction.BagOfWords(ngram_range=(1, 2)) | naive_bayes.MultinomialNB()
    right = []
    for record, learn in zip(records, taught, strict=True):
        text = " ".join(record[field] for field in TEXTS[name])
        right.append(model.predict_one(text) == record["label"])
        if learn:
            model.learn_one(text, record["label"])
    return right


def lightgbm(name, records, taught):
    """Return whether LightGBM, retrained as labels grow, predicted each record right, or None."""
    if TEXTS[name]:
        return None
    import lightgbm as lgb

    X, categorical = table([flat(record) for record in records])
    y = np.array([record["label"] for record in records], dtype=object)
    known, said = np.flatnonzero(taught), np.full(len(y), None, dtype=object)
    labels = 10
    while labels < len(known):
        more = min(labels + max(min(labels // 10, 500), 1), len(known))
        rows = known[:labels]
        if len(set(y[rows])) > 1:
            model = lgb.LGBMClassifier(n_jobs=1, verbose=-1)
            model.fit(X[rows], y[rows].astype(str), categorical_feature=categorical)
            after = known[more - 1] + 1 if more < len(known) else len(y)
            said[rows[-1] + 1 : after] = model.predict(X[rows[-1] + 1 : after])
        labels = more
    return said == y


def table(rows):
    """Return records as an array, categories numbered, and which columns hold categories."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    X = np.full((len(rows), len(names)), np.nan)
    categorical = []
    for column, name in enumerate(names):
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str) and not value.isdigit() for value in values):
            categorical.append(column)
            codes = {}
            X[:, column] = [
                np.nan if v is None else codes.setdefault(v, len(codes)) for v in values
            ]
        else:
            X[:, column] = [np.nan if v is None else float(v) for v in values]
    return X, categorical


PEERS = {"Vowpal Wabbit": vowpal, "River naive Bayes": bayes, "LightGBM": lightgbm}


def compare(name, records, seeds):
    """Return a row of figures for streamboost and each peer."""
    every = halves(run(name, records, of="all", budget=0.05)[0])
    asked = [run(name, records, of="requests", budget=SHARE, seed=seed)[0] for seed in range(seeds)]
    rows = [("streamboost", *every, *np.mean([halves(right) for right in asked], axis=0))]
    for peer, predict in PEERS.items():
        right = predict(name, records, np.ones(len(records), dtype=bool))
        if right is None:
            continue
        drawn = [np.random.default_rng(seed).random(len(records)) < SHARE for seed in range(seeds)]
        few = np.mean([halves(predict(name, records, taught)) for taught in drawn], axis=0)
        rows.append((peer, *halves(right), *few))
    return rows


def speed(name, records):
    """Return records a second of CPU, without the start of the process."""
    some = 500
    began = time.process_time()
    short = run(name, records[:some], of="requests", budget=0.05, batch=100)[1]
    whole = run(name, records, of="requests", budget=0.05, batch=100)[1]
    assert time.process_time() - began < whole
    return (len(records) - some) / (whole - short)


def main():
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=TEXTS, default=list(TEXTS))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    console = Console()
    for name in options.sets:
        records = load(name, options.rows)
        if records is None:
            console.print(f"{name} is not in {FOLDER}: set STREAMBOOST_DATA to the folder of data")
            continue
        if options.speed:
            console.print(f"{name}: {speed(name, records):,.0f} records a second of CPU")
            continue
        shown = Table(title=f"{name}: {len(records):,} records, accuracy %")
        for column in ("", "every label", "second half", "10 %", "second half"):
            shown.add_column(column, justify="right" if column else "left")
        for peer, *figures in compare(name, records, options.seeds):
            shown.add_row(peer, *(f"{figure:.1f}" for figure in figures))
        console.print(shown)


if __name__ == "__main__":
    main()
