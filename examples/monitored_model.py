"""Monitors a LightGBM model on a stream that drifts, with the labels of 2 % of the records.

Needs LightGBM. Writes the records with the model's predictions to `scored.jsonl`, then evaluates
these predictions. At the change, the accuracy drops by about ten points.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from lightgbm import LGBMClassifier
from river.datasets import synth

PARTS = [(2, 16_000), (1, 16_000)]
records = [
    one for variant, n in PARTS for one in synth.SEA(variant, noise=0.1, seed=variant).take(n)
]
X = np.array([list(x.values()) for x, _ in records])
y = np.array([str(label) for _, label in records])

TRAINED = 3_000
model = LGBMClassifier(n_estimators=60, num_leaves=15, verbose=-1)
model.fit(X[:TRAINED], y[:TRAINED])
with Path("scored.jsonl").open("w", encoding="utf-8") as file:
    P = model.predict_proba(X[TRAINED:])
    for (x, label), row in zip(records[TRAINED:], P.tolist(), strict=True):
        score = dict(zip(model.classes_.tolist(), row, strict=True))
        named = {f"x{name}": value for name, value in x.items()}
        print(json.dumps(named | {"score": score, "label": str(label)}), file=file)

command = [
    sys.executable,
    "-m",
    "streamboost.pipelines.cli",
    "demo",
    "scored.jsonl",
    "--label",
    "label",
]
subprocess.run([*command, "--predicted", "score"], check=True)

before = slice(TRAINED, PARTS[0][1])
right = (model.predict(X[before]) == y[before]).mean()
print(f"accuracy before the change, by all labels: {right:.1%}")
