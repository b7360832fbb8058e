"""Processes killed with SIGKILL at every step of the runner: nothing is lost or duplicated.

The long form kills as often as the environment variable STREAMBOOST_KILLS says, at random, over
50,000 records.
"""

import json
from contextlib import closing

import pytest

from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from tests.pipelines.killing import (
    ANY_MOMENT,
    KILLS,
    Feed,
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
follow = true
[labels]
connector = "files"
path = "labels.jsonl"
follow = true
[committee]
n_estimators = 3
[schedule]
growth = 1.2
training = "background"
promotion = "better"
n_evaluation_labels = 20
[query]
budget = 0.3
"""
RECORDED = """
[schema]
classes = ["left", "right"]
[model]
prediction_field = "score"
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
SHORTEST = [("writing", 3), ("replayed", 2), ("committed", 3)]
STEPS = ("polled", "stepped", "writing", "committed", "sealing", "checkpointed", "replayed")


@pytest.fixture
def feed(tmp_path, make_records, is_recorded):
    """What is written, in pieces, to the files that the pipeline of p.toml follows.

    With `is_recorded`, records have the prediction of another system, which is evaluated.
    """

    def send(records, labels):
        for name, messages in (("records", records), ("labels", labels)):
            with (tmp_path / f"{name}.jsonl").open("ab") as file:
                file.writelines(message + b"\n" for message in messages)

    (tmp_path / "p.toml").write_text(PIPELINE + RECORDED if is_recorded else PIPELINE)
    records, truth = make_records(N)
    if is_recorded:
        scores = [recorded_prediction(i, label) for i, label in enumerate(truth)]
        records = [one | {"score": s} for one, s in zip(records, scores, strict=True)]
    return Feed(records, truth, 3 * (KILLS or len(SHORT)), send)


def recorded_prediction(i, label):
    """Return the prediction in record `i`: none or malformed in two of ten."""
    return [None, 0.5, "left", {label: 0.8}][min(i % 10, 3)]


def stream(file, name):
    with closing(SqliteSource(file.parent / "state" / "log.db", name)) as source:
        return [json.loads(message.payload) for message in source.poll(1_000_000)]


@pytest.mark.slow
@pytest.mark.parametrize("is_recorded", [False, True], ids=["own", "recorded"])
@pytest.mark.parametrize(
    "kills",
    [drawn(STEPS)] if KILLS else [SHORTEST, SHORT],
    ids=lambda kills: "long" if KILLS else f"{len(kills)} kills",
)
def test_after_any_kills_each_record_has_one_prediction_and_each_label_was_learned(
    feed, tmp_path, kills, is_recorded
):
    n = KILLS or len(kills)
    died, file = kill(tmp_path / "p.toml", kills, n, feed)
    assert len(died) == n, died
    newest = run(load(file), until_idle=True)

    predicted = stream(file, "predictions")
    assert [p["id"] for p in predicted] == feed.sound
    assert len(stream(file, "dead_letters")) == len(feed.damaged)
    known = describe_pipeline(file.parent / "state")["checkpoint"]
    requests = stream(file, "requests")
    assert_budget_was_kept(known["ledger"], predicted, requests, budget=0.3)
    assert known["ledger"]["answered"] == len(requests), "every label came, none was lost"
    assert known["committee"]["labels"] == len(feed.sound)
    assert known["committee"]["version"] > 0
    assert known["sequence"] == newest
    if is_recorded:
        digits = [int(id) % 10 for id in feed.sound]
        counts = {"missing": digits.count(0), "malformed": digits.count(1)}
        counts |= {"labels_alone": digits.count(2)}
        counts |= {"valid": len(digits) - counts["missing"] - counts["malformed"]}
        assert known["recorded"] == counts
        told = [recorded_prediction(int(id), feed.truth[id]) for id in feed.sound]
        said = [max(one) if isinstance(one, dict) else one for one in told]
        assert [p["label"] for p in predicted] == [None if one == 0.5 else one for one in said]
    assert f"batches 1 to {newest} replayed: bit for bit" in verified(file)
