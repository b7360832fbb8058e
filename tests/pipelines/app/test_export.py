"""A pipeline's committee scores later records in other programs as it does in the pipeline."""

import json
import re

import lightgbm
import numpy as np
import onnxruntime
import pytest
from serving import make_file, put, read, some_records
from slow import slow

from streamboost import Committee, StreamLearner
from streamboost.errors import ModelFileError, StateError
from streamboost.export import RecordLayout, encode, read_layout
from streamboost.pipelines.app.export import export
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from streamboost.pipelines.state.commands import Command, queue_command
from streamboost.pipelines.state.folder import State
from streamboost.storage import select_prefix, write_bytes

AT_ONCE = 400
ALONE = 'experts = "committee"'
MIXED = """
[pipeline]
name = "mixed"
batch_records = 200
[schema.fields]
a = "number"
"device.os" = "category"
note = "text"
at = "time"
place = {type = "vector", size = 2}
[source]
connector = "sqlite"
stream = "records"
[predictions]
connector = "sqlite"
stream = "predictions"
probabilities = true
[query]
budget = 0.5
[committee]
n_estimators = 10
experts = "committee"
"""


def mixed_records(n, start=0):
    """Records of all kinds of fields; 5 % of the values are missing."""
    rng = np.random.default_rng(start)
    records = []
    for i in range(start, start + n):
        record = {
            "a": round(float(rng.normal()), 3),
            "device": {"os": str(rng.choice(["ios", "linux", "plan9", "beos"]))},
            "note": str(rng.choice(["cheap pills", "see you soon", "cheap flights"])),
            "at": 1_772_350_200 + 37 * i,
            "place": [round(float(one), 3) for one in rng.random(2)],
        }
        kept = {name: value for name, value in record.items() if rng.random() > 0.05}
        records.append({"id": str(i), **kept})
    return records


def label_of(record):
    is_spam = "cheap" in record.get("note", "")
    return "spam" if is_spam and record.get("a", 0.0) > -0.5 else "ham"


@pytest.fixture(scope="module", params=[500, *slow(10_000)])
def n_later(request):
    """The number of records after the export."""
    return request.param


@pytest.fixture(scope="module")
def mixed(n_later, tmp_path_factory):
    """The file of a pipeline that has learned 400 labels, before `n_later` further records."""
    file = tmp_path_factory.mktemp("mixed") / "p.toml"
    file.write_text(MIXED)
    config, records = load(file), mixed_records(400)
    put(config, "records", records)
    put(config, "labels", [{"id": one["id"], "label": label_of(one)} for one in records])
    run(config, until_idle=True)
    return file


@pytest.fixture(scope="module")
def exported(mixed, tmp_path_factory):
    """The exported files by format."""
    folder = tmp_path_factory.mktemp("exported")
    files = {name: folder / name for name in ("safetensors", "onnx", "lightgbm")}
    for name, path in files.items():
        export(load(mixed), name, output=path)
    return files


@pytest.fixture(scope="module")
def later(n_later, mixed, exported):
    """Records after the export, and what the pipeline predicted for them."""
    config, records = load(mixed), mixed_records(n_later, start=1_000)
    put(config, "records", records)
    run(config, until_idle=True)
    return records, read(config, "predictions")[-n_later:]


def rows_of(path, records):
    """Rows of the records, encoded some at a time."""
    layout = read_layout(path)
    parts = [encode(records[i : i + AT_ONCE], layout) for i in range(0, len(records), AT_ONCE)]
    return np.concatenate(parts), layout


def test_onnx_predicts_what_the_pipeline_does(exported, later):
    records, predicted = later
    X, _ = rows_of(exported["onnx"], records)
    session = onnxruntime.InferenceSession(exported["onnx"], providers=["CPUExecutionProvider"])
    labels, P = session.run(["label", "probabilities"], {"X": X})
    assert set(labels) == {"spam", "ham"}
    assert labels.tolist() == [one["label"] for one in predicted]
    expected = [[one["probabilities"][k] for k in ("ham", "spam")] for one in predicted]
    assert np.allclose(P, expected, rtol=0, atol=1e-9)


def test_lightgbm_predicts_what_the_pipeline_does(exported, later):
    records, predicted = later
    X, layout = rows_of(exported["lightgbm"], records)
    booster = lightgbm.Booster(model_file=exported["lightgbm"])
    classes = np.array(layout.about["classes"])
    labels = classes[booster.predict(X, raw_score=True).argmax(axis=1)]
    assert labels.tolist() == [one["label"] for one in predicted]


def test_safetensors_is_the_committee_with_its_layout(exported, later):
    records, predicted = later
    X, layout = rows_of(exported["safetensors"], records)
    committee = Committee.load(exported["safetensors"])
    assert {one["version"] for one in predicted} == {committee.version} == {layout.about["version"]}
    scores = committee.class_scores(X)
    labels = committee.classes[committee.predicted_indices(scores)]
    assert labels.tolist() == [one["label"] for one in predicted]
    booster = lightgbm.Booster(model_file=exported["lightgbm"])
    assert np.array_equal(booster.predict(X, raw_score=True), scores)


def test_layout_in_onnx_runtimes_metadata_is_that_of_the_file(exported, later):
    session = onnxruntime.InferenceSession(exported["onnx"], providers=["CPUExecutionProvider"])
    layout = RecordLayout.from_metadata(session.get_modelmeta().custom_metadata_map)
    records = later[0][:50]
    assert np.array_equal(encode(records, layout), rows_of(exported["onnx"], records)[0], True)


def test_layout_describes_columns_and_classes(exported):
    about = read_layout(exported["lightgbm"]).about
    assert about["columns"][:4] == ["a", "device.os", "at: hour", "at: weekday"]
    assert {"place[0]", "place[1]", "words for ham"} < set(about["columns"])
    assert about["classes"] == ["ham", "spam"]


@pytest.fixture
def numeric(tmp_path):
    """The configuration of a pipeline of two numbers that has learned 80 labels."""

    def start(more="", committee=""):
        file = make_file(tmp_path / "numeric", more)
        file.write_text(
            file.read_text().replace("n_estimators = 3", f"n_estimators = 3\n{committee}")
        )
        config, records = load(file), some_records(80)
        put(config, "records", records)
        put(config, "labels", [{"id": r["id"], "label": r["a"] > r["b"]} for r in records])
        run(config, until_idle=True)
        return config

    return start


def test_numbers_are_encoded_as_in_the_pipeline(numeric, tmp_path):
    config = numeric(committee=ALONE)
    export(config, "onnx", output=tmp_path / "model.onnx")
    records = some_records(300, start=5_000)
    records[7]["a"] = None
    del records[8]["b"]
    put(config, "records", records)
    run(config, until_idle=True)
    predicted = read(config, "predictions")[-300:]
    layout = read_layout(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (labels,) = session.run(["label"], {"X": layout.encode(records)})
    assert layout.about["classes"] == [False, True]
    assert [json.loads(label) for label in labels] == [one["label"] for one in predicted]


def test_accuracy_of_a_committee_that_predicts_alone_is_in_lines_and_layout(numeric, tmp_path):
    config = numeric(committee=ALONE)
    lines = export(config, "lightgbm", output=tmp_path / "model.txt")
    evaluation = State(config.state).checkpoints.newest()[1]["evaluation"]
    estimate = evaluation["recent"]["committee"]["accuracy"]
    assert read_layout(tmp_path / "model.txt").about["accuracy"] == estimate
    assert lines[2].startswith(
        f"its own accuracy is {estimate['value']:.3f} [{estimate['low']:.3f}, "
    )


def test_accuracy_next_to_other_experts_is_that_of_the_committee_alone(numeric, tmp_path):
    config = numeric()
    lines = export(config, "lightgbm", output=tmp_path / "model.txt")
    arrays = State(config.state).checkpoints.newest()[0]
    learner = StreamLearner.restore(select_prefix(arrays, "learner."))
    alone = learner.evaluation.recent().committee_alone.accuracy
    assert alone != learner.evaluation.recent().committee.accuracy
    assert read_layout(tmp_path / "model.txt").about["accuracy"]["value"] == alone.value
    assert lines[0].startswith(f"{tmp_path / 'model.txt'}: ")
    assert "is exported, not the ensemble" in lines[1]
    assert lines[2].startswith(f"its own accuracy is {alone.value:.3f} [")


def test_decisions_of_the_pipeline_are_made_by_onnx(numeric, tmp_path):
    config = numeric("[decision.costs]\ntrue.false = 9", ALONE)
    export(config, "onnx", output=tmp_path / "model.onnx")
    records = some_records(300, start=5_000)
    put(config, "records", records)
    run(config, until_idle=True)
    predicted = read(config, "predictions")[-300:]
    assert any(one["label"] != one["decision"] for one in predicted)
    layout = read_layout(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (decided,) = session.run(["decision"], {"X": layout.encode(records)})
    classes = layout.about["classes"]
    assert [classes[k] for k in decided] == [one["decision"] for one in predicted]


def test_kept_version_is_exported_and_an_unknown_one_is_refused(numeric, tmp_path):
    config = numeric()
    kept = min(int(path.stem) for path in State(config.state).versions.glob("*.safetensors"))
    first = export(config, "safetensors", kept, tmp_path / "first")
    assert f"version {kept} of the committee" in first[1]
    assert "the pipeline predicts with another version" in first[2]
    assert Committee.load(tmp_path / "first").version == kept
    with pytest.raises(StateError, match=f"version 999 is not kept: there are {kept}"):
        export(config, "safetensors", 999, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_columns_of_label_lags_are_refused(numeric, tmp_path):
    with pytest.raises(StateError, match=r"newest labels.*label_lags = 0"):
        export(numeric(committee="label_lags = 2"), "onnx", output=tmp_path / "model.onnx")


def test_merged_class_is_refused_until_the_committee_is_retrained(numeric, tmp_path):
    config = numeric()
    queue_command(config.state, Command("pause"))
    queue_command(config.state, Command("drop", label="false"))
    put(config, "records", some_records(5, start=9_000))
    run(config, until_idle=True)
    with pytest.raises(StateError, match=r"predicts the classes false.*retrain"):
        export(config, "onnx", output=tmp_path / "model.onnx")


def test_pipeline_that_has_not_begun_is_refused(tmp_path):
    config = load(make_file(tmp_path / "new"))
    with pytest.raises(StateError, match=r"has not run yet"):
        export(config, "onnx", output=tmp_path / "model.onnx")


def test_state_of_another_pipeline_is_refused(numeric, tmp_path):
    file = numeric().state.parent / "p.toml"
    file.write_text(re.sub(r'name = ".*"', 'name = "another"', file.read_text(), count=1))
    with pytest.raises(StateError, match=r"and this is 'another'"):
        export(load(file), "onnx", output=tmp_path / "model.onnx")


def test_pipeline_without_a_committee_is_refused(tmp_path):
    config = load(make_file(tmp_path / "new"))
    put(config, "records", some_records(5))
    run(config, until_idle=True)
    with pytest.raises(StateError, match=r"no committee yet"):
        export(config, "onnx", output=tmp_path / "model.onnx")


def test_other_files_are_refused(tmp_path):
    for content in (b"", b"tree\nversion=v4\n", b"something else", b"\x80" * 90):
        write_bytes(tmp_path / "file", content)
        with pytest.raises(ModelFileError, match=r"export"):
            read_layout(tmp_path / "file")
    with pytest.raises(ModelFileError, match=r"cannot be read"):
        read_layout(tmp_path / "none")
