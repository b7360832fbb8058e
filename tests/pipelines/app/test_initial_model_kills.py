"""Pipelines that begin with an initial model, killed with SIGKILL."""

import numpy as np
import pytest

from streamboost import SketchLogitBoostClassifier
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from tests.pipelines.app.test_kills import PIPELINE, SHORTEST, feed, stream  # noqa: F401
from tests.pipelines.killing import kill, verified


@pytest.fixture
def is_recorded():
    return False


@pytest.mark.slow
def test_after_kills_a_committee_given_beforehand_serves_as_if_there_had_been_none(
    tmp_path,
    feed,  # noqa: F811
    make_records,
):
    known, truth = make_records(400, seed=1)
    X = np.array([[record["a"], record["b"]] for record in known], dtype=np.float32)
    model = SketchLogitBoostClassifier(n_estimators=20).fit(X, truth)
    model.committee_.save(tmp_path / "model.safetensors")
    named = '[schema]\nnumeric = ["a", "b"]\n[initial_data]\ncommittee = "model.safetensors"\n'
    text = PIPELINE.replace("[source]", named + "[source]")
    text = text.replace("growth = 1.2", "first = 100\ngrowth = 1.2")
    (tmp_path / "p.toml").write_text(text)
    died, file = kill(tmp_path / "p.toml", SHORTEST, len(SHORTEST), feed)
    assert len(died) == len(SHORTEST), died
    newest = run(load(file), until_idle=True)
    predicted = stream(file, "predictions")
    assert [p["id"] for p in predicted] == feed.sound
    assert predicted[0]["version"] == 1
    assert describe_pipeline(file.parent / "state")["checkpoint"]["committee"]["labels"] > 100
    assert f"batches 1 to {newest} replayed: bit for bit" in verified(file)
