"""A model trained beforehand, with which a new pipeline and each of its replays begin."""

import json
from contextlib import closing

import numpy as np
import pytest

from streamboost import SketchLogitBoostClassifier
from streamboost.boosting.committee import Committee
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.errors import ConfigurationError, StateError
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.runner.initial_data import deploy_initial_committee
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.journal import JournalEntry
from tests.pipelines.distributed.sharing import edition_of, make_learner, numbers

MODEL = "model.safetensors"


def config(folder, **sections):
    tables = {
        "pipeline": {"name": "test", "batch_records": 10},
        "schema": {"numeric": ["a", "b"]},
        "source": {"connector": "files", "path": "records.jsonl"},
        "labels": {"connector": "files", "path": "labels.jsonl", "follow": True},
        "initial_data": {"committee": MODEL},
        "committee": {"n_estimators": 2},
        "query": {"budget": 0.5},
    }
    merged = {name: tables.get(name, {}) | given for name, given in sections.items()}
    return parse(tables | merged, folder, environment={})


def trained(folder, X, y, **settings):
    model = SketchLogitBoostClassifier(n_estimators=20, random_state=3, **settings).fit(X, y)
    model.committee_.save(folder / MODEL)
    return model


@pytest.fixture
def prepared(tmp_path, make_records):
    """A committee of four hundred rows, sixty records to predict and their labels."""
    known, truth = make_records(400, seed=1)
    trained(tmp_path, np.array([[r["a"], r["b"]] for r in known], dtype=np.float32), truth)
    records, labels = make_records(60)
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    pairs = zip(records, labels, strict=True)
    lines = [json.dumps({"id": r["id"], "label": label}) + "\n" for r, label in pairs]
    (tmp_path / "labels.jsonl").write_text("".join(lines))
    return tmp_path


def outcome(folder, **sections):
    run(config(folder, **sections), until_idle=True)
    return describe_pipeline(folder / "state")["checkpoint"]


def predictions(folder):
    with closing(SqliteSource(folder / "state" / "log.db", "predictions")) as source:
        return [json.loads(message.payload) for message in source.poll(1_000)]


def entries(folder):
    with closing(SqliteTransaction(folder / "state" / "log.db", "test")) as transaction:
        return [JournalEntry.decode(message) for _, message in transaction.read_journal()]


def finding(folder, **sections):
    return next(f for f in check_pipeline(config(folder, **sections)) if f.part == "committee")


def test_it_predicts_the_first_record_as_it_did_where_it_was_trained(prepared):
    (prepared / "labels.jsonl").write_text("")
    outcome(prepared, committee={"experts": "committee"})
    records = [json.loads(line) for line in (prepared / "records.jsonl").read_text().splitlines()]
    committee = Committee.load(prepared / MODEL)
    X = np.array([[r["a"], r["b"]] for r in records], dtype=np.float32)
    probabilities = committee.probabilities(committee.class_scores(X))
    told = predictions(prepared)
    assert {one["version"] for one in told} == {1}
    assert [one["label"] for one in told] == committee.classes[probabilities.argmax(1)].tolist()
    np.testing.assert_array_equal([one["probability"] for one in told], probabilities.max(axis=1))
    assert [entry.promoted for entry in entries(prepared)] == [1, *[None] * 5]


def test_a_few_labels_do_not_take_its_place(prepared):
    saved = outcome(prepared)
    assert saved["committee"]["labels"] == 60
    assert saved["committee"]["version"] == 1
    assert saved["committee"]["rounds"] == 20


def test_it_is_replaced_where_the_schedule_says_so(prepared):
    saved = outcome(prepared, schedule={"first": 30, "promotion": "always"})
    assert saved["committee"]["version"] > 1
    assert "batches 1 to" in verify_replay(
        config(prepared, schedule={"first": 30, "promotion": "always"})
    )


def test_a_replay_begins_with_it_also_where_its_file_is_gone(prepared):
    outcome(prepared)
    (prepared / MODEL).unlink()
    assert "bit for bit" in verify_replay(config(prepared))


def test_a_run_without_checkpoints_comes_to_the_same_bits(prepared):
    uninterrupted = outcome(prepared)
    checkpoints = State(prepared / "state").checkpoints
    for sequence in checkpoints.sequences:
        checkpoints.path(sequence).unlink()
    (prepared / MODEL).unlink()
    assert outcome(prepared) == uninterrupted


def test_another_one_in_its_place_is_noticed_and_not_taken(prepared, caplog):
    outcome(prepared)
    own = (prepared / "state" / "committee.safetensors").read_bytes()
    trained(prepared, np.eye(2, dtype=np.float32), ["left", "right"])
    outcome(prepared)
    assert "has changed since the pipeline began" in caplog.text
    assert (prepared / "state" / "committee.safetensors").read_bytes() == own
    (prepared / "state" / "committee.safetensors").unlink()
    with pytest.raises(StateError, match="but the pipeline began with"):
        run(config(prepared), until_idle=True)


def test_until_a_batch_is_there_it_may_be_changed(prepared):
    came = {name: (prepared / name).read_bytes() for name in ("records.jsonl", "labels.jsonl")}
    for name in came:
        (prepared / name).write_bytes(b"")
    run(config(prepared), until_idle=True)
    trained(prepared, np.eye(2, dtype=np.float32), ["left", "right"], learning_rate=0.3)
    for name, content in came.items():
        (prepared / name).write_bytes(content)
    outcome(prepared)
    kept = (prepared / "state" / "committee.safetensors").read_bytes()
    assert kept == (prepared / MODEL).read_bytes()


def test_the_state_belongs_to_it(prepared):
    outcome(prepared)
    with pytest.raises(
        StateError, match=r"\[initial_data\] committee was .*model.* and is not set"
    ):
        run(config(prepared, initial_data={"committee": None}), until_idle=True)


def test_check_says_what_it_found(prepared):
    found = finding(prepared)
    assert found.ok
    assert found.text.startswith("20 rounds, 2 classes, 2 columns, SHA-256 ")
    assert not (prepared / "state" / "committee.safetensors").exists()


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"schema": {"numeric": ["a"]}}, r"has 2 columns, but records have 1 \(a\)"),
        ({"schema": {"label": "integer"}}, 'label is "integer": set label = "string"'),
        (
            {"schema": {"classes": ["up"]}},
            r"has the classes left, right: add them to \[schema\] classes",
        ),
        ({"committee": {"label_lags": 2}}, r"remove \[committee\] label_lags"),
        ({"initial_data": {"committee": "gone"}}, "'gone' cannot be read: .*No such file"),
        ({"initial_data": {"committee": "/dev/zero"}}, "cannot be read: .*it is a device"),
        ({"initial_data": {"committee": "records.jsonl"}}, "is not a committee file"),
        (
            {"schema": {"numeric": "auto", "fields": {"a": "number", "b": "category"}}},
            "cannot use b: only number and vector fields",
        ),
    ],
)
def test_what_does_not_fit_is_said_by_check_and_run(prepared, sections, said):
    found = finding(prepared, **sections)
    assert not found.ok
    with pytest.raises(ConfigurationError, match=said):
        run(config(prepared, **sections), until_idle=True)
    with pytest.raises(ConfigurationError, match=said):
        raise ConfigurationError(found.text)


def test_columns_are_compared_by_their_names(prepared):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(np.eye(4, 2, dtype=np.float32), columns=["b", "a"])
    trained(prepared, X, ["left", "right"] * 2)
    found = finding(prepared)
    assert not found.ok
    assert "has the column 1 'b', but records have 'a'" in found.text
    assert finding(prepared, schema={"numeric": ["b", "a"]}).ok


def test_fields_may_be_numbers_of_mixed_records(prepared):
    mixed = {"schema": {"numeric": "auto", "fields": {"a": "number", "b": "number"}}}
    outcome(prepared, **mixed)
    assert {one["version"] for one in predictions(prepared)} == {1}
    assert "bit for bit" in verify_replay(config(prepared, **mixed))


@pytest.mark.parametrize("section", ["model", "features"])
def test_models_of_river_are_refused(prepared, section):
    with pytest.raises(ConfigurationError, match=r"\[initial_data\] committee"):
        config(prepared, schema={"numeric": "auto"}, **{section: {"river": "own:make"}})


def test_where_scoring_is_apart_the_first_edition_scores_as_it_does(make_records):
    known, truth = make_records(200, seed=1)
    X = np.array([[r["a"], r["b"]] for r in known], dtype=np.float32)
    committee = SketchLogitBoostClassifier(n_estimators=20).fit(X, truth).committee_
    learner = make_learner(numbers())
    schema = deploy_initial_committee(committee, numbers(), learner)
    edition = edition_of(learner, schema)
    assert edition.version == 1
    scored = edition.learner.score(X)
    assert scored.labels.tolist() == learner.score(X).labels.tolist()
    assert np.mean(scored.labels == np.array(truth)) > 0.9


@pytest.mark.parametrize(
    ("classes", "kind"),
    [(["a", "b"], "string"), (["true", "false"], "boolean"), ([3, 4], "integer")],
)
def test_labels_are_what_its_classes_are(classes, kind):
    X = np.eye(4, 2, dtype=np.float32)
    committee = SketchLogitBoostClassifier(n_estimators=2).fit(X, classes * 2).committee_
    schema = Schema(numeric=["a", "b"])
    assert deploy_initial_committee(committee, schema, make_learner(schema)).label_kind == kind


def test_classes_that_no_label_can_be_are_refused():
    X = np.eye(4, 2, dtype=np.float32)
    committee = SketchLogitBoostClassifier(n_estimators=2).fit(X, [0.0, 1.0] * 2).committee_
    schema = Schema(numeric=["a", "b"])
    with pytest.raises(ConfigurationError, match="train a committee on text or whole numbers"):
        deploy_initial_committee(committee, schema, make_learner(schema))
