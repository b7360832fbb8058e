"""Records with fields of every kind, some missing, malformed or added in the middle."""

import numpy as np

FIELDS = {
    "amount": "number",
    "device.os": "category",
    "note": "text",
    "ts": {"type": "time", "zone": "Europe/Berlin"},
    "at": {"type": "vector", "size": 2},
    "shop": {"type": "category", "min_frequency": 2},
}
WORDS = {
    "fine": ["lunch", "groceries", "rent", "books"],
    "fraud": ["gift", "voucher", "urgent", "crypto"],
    "odd": ["refund", "charge", "again", "twice"],
}


def mixed_records(n, start=0, seed=0):
    """Return the records from `start` on of a stream, and their labels, a third of them later."""
    records, labels = [], []
    for i in range(start, start + n):
        rng = np.random.default_rng([seed, i])
        label = str(rng.choice(list(WORDS)[: 2 if i < 100 else 3]))
        record = {
            "id": str(i),
            "amount": [float(rng.normal(label == "fraud")), f"{i}.5", None, 10**30][int(i % 7 % 4)],
            "device": {"os": str(rng.choice(["ios", "linux"])), "screen": {"w": i % 3}},
            "note": " ".join(rng.choice(WORDS[label], 3)) + " für \U0001f600 東京",
            "ts": 1_772_350_200 + 61 * i if i % 5 else f"2026-03-01T{i % 24:02}:30:00Z",
            "at": [i / 7, -0.0],
            "shop": f"shop {rng.integers(400)}",
        }
        for name in list(record)[1:]:
            if rng.random() < 0.05:
                record[name] = [None, "?", [1], {"os": [2]}, True, "x" * 20_000][rng.integers(6)]
            elif rng.random() < 0.05:
                del record[name]
        records.append(record)
        labels.append(label)
    return records, labels
