"""Real processes killed with SIGKILL at every step of the loop: nothing lost, nothing twice.

The long form kills as often as the environment variable STREAMBOOST_KILLS says, at random.
"""

import json
import os
import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from streamboost.connectors.sqlite import SqliteSource
from streamboost.pipelines.assembly import run
from streamboost.pipelines.config import load
from streamboost.pipelines.inspection import describe
from streamboost.pipelines.verification import verify

HARNESS = Path(__file__).with_name("killing.py")
N = 900
PIPELINE = """
[pipeline]
name = "killed"
batch_records = 20
batch_labels = 20
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
ONE_OF_EACH = [("stepped", 5), ("writing", 7), ("sealing", 3), ("replayed", 2)]
STEPS = ("polled", "stepped", "writing", "committed", "sealing", "checkpointed", "replayed")


def kills():
    """Return (step, how often it is come to) for each kill."""
    n = int(os.environ.get("STREAMBOOST_KILLS", "0"))
    draw = random.Random(n)
    return [(draw.choice(STEPS), draw.randint(1, 4)) for _ in range(n)] or ONE_OF_EACH


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
    died = 0
    for step, n in kills():
        command = [sys.executable, str(HARNESS), str(pipeline_file), step, str(n)]
        ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        assert ended.returncode in (-signal.SIGKILL, 0), (step, n)
        died += ended.returncode != 0
    assert died >= min(3, len(kills()))
    run(load(pipeline_file), until_idle=True)

    predicted = stream(pipeline_file, "predictions")
    assert [p["id"] for p in predicted] == [r["id"] for r in make_records(N)[0]]
    requests = stream(pipeline_file, "requests")
    assert len({r["id"] for r in requests}) == len(requests)
    known = describe(pipeline_file.parent / "state")["checkpoint"]
    assert known["ledger"]["records"] == N
    assert known["ledger"]["requests"] == len(requests) == sum(p["asked"] for p in predicted)
    assert known["ledger"]["answered"] == len(requests), "every label came, none was lost"
    assert known["committee"]["labels"] == N
    assert known["committee"]["version"] > 0
    assert f"batches 1 to {known['sequence']} replayed: bit for bit" in verify(load(pipeline_file))
