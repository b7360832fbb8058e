"""Real processes killed with SIGKILL at every step of the loop: nothing lost, nothing twice.

The long form kills as often as the environment variable STREAMBOOST_KILLS says, at random, over
50,000 records.
"""

import json
from contextlib import closing

import pytest

from streamboost.connectors.sqlite import SqliteSource
from streamboost.pipelines.assembly import run
from streamboost.pipelines.config import load
from streamboost.pipelines.inspection import describe
from tests.pipelines.killing import (
    ANY_MOMENT,
    KILLS,
    assert_budget_was_kept,
    drawn,
    kill,
    verified,
)

N, BATCH = (50_000, 100) if KILLS else (900, 20)
PIPELINE = f"""
[pipeline]
name = "killed"
batch_records = {BATCH}
batch_labels = {BATCH}
checkpoint_every = 4
[source]
connector = "files"
path = "records.jsonl"
[labels]
connector = "files"
path = "labels.jsonl"
[committee]
n_estimators = 3
[schedule]
growth = 1.2
training = "background"
promotion = "better"
shadow = 20
[query]
budget = 0.3
"""
SHORT = [
    (ANY_MOMENT, 0.2),
    ("polled", 3),
    ("stepped", 5),
    ("writing", 7),
    ("sealing", 3),
    ("checkpointed", 1),
    ("committed", 3),
    ("replayed", 2),  # of the three that stand after that checkpoint
]
STEPS = ("polled", "stepped", "writing", "committed", "sealing", "checkpointed", "replayed")


@pytest.fixture
def pipeline_file(tmp_path, make_records):
    records, truth = make_records(N)
    labels = [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]
    for name, messages in (("records", records), ("labels", labels)):
        text = "".join(json.dumps(message) + "\n" for message in messages)
        (tmp_path / f"{name}.jsonl").write_text(text)
    (tmp_path / "p.toml").write_text(PIPELINE)
    return tmp_path / "p.toml"


def stream(file, name):
    with closing(SqliteSource(file.parent / "state" / "log.db", name)) as source:
        return [json.loads(message.payload) for message in source.poll(1_000_000)]


def test_after_any_kills_each_record_has_one_prediction_and_each_label_was_learned(
    pipeline_file, make_records
):
    n = KILLS or len(SHORT)
    died = kill(pipeline_file, drawn(STEPS) if KILLS else SHORT, n)
    assert len(died) == n, died
    newest = run(load(pipeline_file), until_idle=True)

    predicted = stream(pipeline_file, "predictions")
    assert [p["id"] for p in predicted] == [r["id"] for r in make_records(N)[0]]
    known = describe(pipeline_file.parent / "state")["checkpoint"]
    requests = stream(pipeline_file, "requests")
    assert_budget_was_kept(known["ledger"], predicted, requests, budget=0.3)
    assert known["ledger"]["answered"] == len(requests), "every label came, none was lost"
    assert known["committee"]["labels"] == N
    assert known["committee"]["version"] > 0
    assert known["sequence"] == newest
    assert f"batches 1 to {newest} replayed: bit for bit" in verified(pipeline_file)
