"""Records predicted and explained on a real server, with the model in the state folder."""

import json

import numpy as np
import pytest
from serving import make_file, put, read, site_of, some_records
from waiting import until

from streamboost.boosting.committee import Committee
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from streamboost.pipelines.service.scoring import CheckpointScorer
from streamboost.pipelines.state.folder import State

PREFIX = "/api/v1/pipelines/test"
MIXED = """
[pipeline]
name = "test"
[schema.fields]
a = "number"
"device.os" = "category"
note = "text"
[source]
connector = "sqlite"
stream = "records"
[query]
budget = 0.5
[committee]
n_estimators = 3
"""


def asked(client, what, records):
    answer = client.post(f"{PREFIX}/{what}", json={"records": records})
    assert answer.status_code == 200, answer.text
    return answer.json()


def mixed_records(n, start=0):
    rng = np.random.default_rng(start)
    return [
        {
            "id": f"{start + i}",
            "a": round(float(rng.random()), 3),
            "device": {"os": str(rng.choice(["ios", "linux"]))},
            "note": str(rng.choice(["cheap pills", "see you soon"])),
        }
        for i in range(n)
    ]


@pytest.fixture
def mixed(tmp_path):
    (tmp_path / "mixed").mkdir()
    file = tmp_path / "mixed" / "p.toml"
    file.write_text(MIXED)
    config, records = load(file), mixed_records(80)
    put(config, "records", records)
    put(config, "labels", [{"id": r["id"], "label": r["device"]["os"] == "ios"} for r in records])
    run(config, until_idle=True)
    return file


@pytest.mark.parametrize(("which", "make"), [("file", some_records), ("mixed", mixed_records)])
def test_what_is_predicted_is_what_the_pipeline_predicts_when_the_records_come(
    which, make, request
):
    file = request.getfixturevalue(which)
    config, records = load(file), make(20, start=5_000)
    with site_of(file) as site:
        told = asked(site.program(), "predict", records)
    put(config, "records", records)
    run(config, until_idle=True)
    logged = read(config, "predictions")[-20:]
    assert {one["sequence"] for one in logged} == {told["sequence"] + 1}
    for one, other in zip(told["predictions"], logged, strict=True):
        same = ("id", "label", "probability", "margin", "version")
        assert [one[name] for name in same] == [other[name] for name in same]
        best = max(one["probabilities"], key=one["probabilities"].get)
        assert json.dumps(one["label"]).strip('"') == best


def test_predicting_leaves_no_trace(site, file):
    config = load(file)
    before = {path: path.read_bytes() for path in config.state.rglob("*") if path.is_file()}
    streams = [read(config, name) for name in ("records", "predictions", "requests")]
    asked(site.program(), "predict", some_records(3))
    asked(site.program(), "explain", some_records(3))
    assert [read(config, name) for name in ("records", "predictions", "requests")] == streams
    checkpoints = [path for path in before if path.parent.name == "checkpoints"]
    assert checkpoints
    assert all(path.read_bytes() == before[path] for path in checkpoints)


def test_few_records_and_many_are_predicted_alike(site):
    records, program = some_records(200, start=5_000), site.program()
    many = asked(program, "predict", records)["predictions"]
    for _ in range(2):  # once by a thread, and once without
        few = [asked(program, "predict", [record])["predictions"][0] for record in records[:5]]
        assert few == many[:5]
    body = json.dumps({"records": records[:5]}).encode()
    headers = {"Content-Type": "application/json"}
    chunked = program.post(f"{PREFIX}/predict", content=iter([body]), headers=headers)
    assert chunked.json()["predictions"] == many[:5]


def test_nobody_waits_in_the_event_loop_for_a_committee_to_load_or_for_others(site, file):
    scoring = CheckpointScorer(State(load(file).state))
    records = some_records(1)
    assert not scoring.is_ready
    scoring.predict(records)
    assert scoring.is_ready
    with scoring._scoring:  # as while a thread scores what somebody else sent
        assert not scoring.is_ready
    scoring._load_checkpoint()  # a newer one, which is warm when it takes over
    assert scoring.is_ready


def test_a_newer_checkpoint_is_gone_by(site, file):
    config, program = load(file), site.program()
    (record,) = some_records(1, start=9_000)
    before = asked(program, "predict", [record])["sequence"]
    put(config, "records", some_records(40, start=7_000))
    run(config, until_idle=True)
    until(lambda: asked(program, "predict", [record])["sequence"] > before)


def test_loading_checkpoints_takes_a_small_share_of_the_time_however_often_there_is_a_newer(file):
    config, records, now = load(file), some_records(1, start=9_000), [0.0]
    scoring = CheckpointScorer(State(config.state), clock=lambda: now[0])
    before = scoring.predict(records)["sequence"]
    put(config, "records", some_records(40, start=7_000))
    run(config, until_idle=True)
    assert scoring.predict(records)["sequence"] == before
    assert not scoring._loading.locked()
    now[0] = 1_000.0
    until(lambda: scoring.predict(records)["sequence"] > before)


def test_an_explanation_adds_up_to_the_committees_score(site, file):
    config, records = load(file), some_records(4, start=5_000)
    told = asked(site.program(), "explain", records)
    version = told["version"]
    committee = Committee.load(config.state / "versions" / f"{version:08}.safetensors")
    X = np.array([[r["a"], r["b"]] for r in records], dtype=np.float32)
    owed = committee.contributions(X)
    for row, one in enumerate(told["explanations"]):
        for k, label in enumerate(committee.classes.tolist()):
            shares = one["classes"][label]
            assert shares["features"] == dict(zip(["a", "b"], owed[row, k, :2], strict=True))
            total = shares["expected"] + sum(shares["features"].values())
            assert shares["score"] == pytest.approx(total)
    scores = [
        [one["classes"][k]["score"] for k in committee.classes] for one in told["explanations"]
    ]
    assert np.allclose(scores, committee.class_scores(X))


@pytest.mark.slow
def test_fields_of_several_kinds_are_explained_by_name(mixed):
    with site_of(mixed) as site:
        told = asked(site.program(), "explain", mixed_records(2))
    shares = told["explanations"][0]["classes"]["true"]["features"]
    assert list(shares) == ["a", "device.os", "words for false", "words for true"]


def test_a_record_needs_no_id(site):
    told = asked(site.program(), "predict", [{"a": 0.9, "b": 0.1}, {"id": 7, "a": 0.1, "b": 0.9}])
    assert [one["id"] for one in told["predictions"]] == [None, "7"]


def test_a_record_that_cannot_be_used_is_named_and_none_is_predicted(site):
    body = {"records": [{"a": 1, "b": 2}, {"a": "wide", "b": 2}]}
    answer = site.program().post(f"{PREFIX}/predict", json=body)
    assert answer.status_code == 422
    assert "record 2 cannot be used (wrong_type): field 'a'" in answer.json()["detail"]


def test_a_pipeline_without_a_checkpoint_says_when_there_will_be_one(tmp_path):
    with site_of(make_file(tmp_path / "new")) as site:
        answer = site.program().post(f"{PREFIX}/predict", json={"records": [{"a": 1, "b": 2}]})
    assert answer.status_code == 409
    assert "checkpoint_every" in answer.json()["detail"]


def test_the_scorers_token_predicts_and_a_annotator_does_not(site):
    (record,) = some_records(1)
    told = asked(site.scorer(), "predict", [record])
    assert told == asked(site.browser("olga", "operator"), "predict", [record])
    for what in ("predict", "explain"):
        refused = site.browser("ann").post(f"{PREFIX}/{what}", json={"records": [record]})
        assert refused.status_code == 403


@pytest.mark.slow
def test_many_may_ask_where_few_may_write(site):
    (record,), scorer = some_records(1), site.scorer()
    writes = int(site.settings.writes[1])
    for _ in range(3 * writes):
        asked(scorer, "predict", [record])
