"""Scores of Arrow record batches: same bits as the committee, and errors with a remedy."""

import numpy as np
import pyarrow as pa
import pytest

from streamboost import SketchLogitBoostClassifier
from streamboost.errors import ConfigurationError, DataError, ModelFileError
from streamboost.features import Features
from streamboost.spark.batch_scorer import BatchScorer, load_cached_scorer
from tests.families import KINDS
from tests.slow import slow
from tests.spark import mixed

NAMES = ["a", "b", "c"]


def rows(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    X[::20, 1] = np.nan
    return X


def train(X, classes, **given):
    y = np.asarray(classes)[np.digitize(np.nan_to_num(np.asarray(X)[:, 0]), [-0.5, 0.5])]
    return SketchLogitBoostClassifier(n_estimators=10, random_state=0, **given).fit(X, y).committee_


def batch(X):
    columns = {
        name: pa.array(column, from_pandas=True) for name, column in zip(NAMES, X.T, strict=True)
    }
    return pa.RecordBatch.from_pydict({"id": pa.array(range(len(X))), **columns})


def sent(scorer):
    """Return the scorer as a worker receives it."""
    return BatchScorer.from_bytes(scorer.to_bytes())


def scored(given, committee, **options):
    return sent(BatchScorer.create(given.schema.names, committee, **options)).score(given)


@pytest.mark.parametrize(
    ("classes", "kind"),
    [
        (["low", "mid", "high"], pa.string()),
        ([3, 1, 2], pa.int64()),
        ([1.0, 2.0, 4.0], pa.float64()),
        ([False, True, True], pa.bool_()),
    ],
)
def test_predictions_are_those_of_the_committee(classes, kind):
    committee, X = train(rows(500), classes), rows(300, 1)
    out = scored(batch(X), committee, columns=NAMES, probabilities=True)
    scores = committee.class_scores(X)
    assert out.schema.names == ["id", *NAMES, "prediction", "probabilities"]
    assert out.column("prediction").type == kind
    assert out.column("prediction").to_pylist() == (
        committee.classes[committee.predicted_indices(scores)].tolist()
    )
    assert out.column("probabilities").to_pylist() == committee.probabilities(scores).tolist()


@pytest.mark.parametrize("kind", [KINDS[0], *slow(*KINDS[1:])])
def test_committee_of_each_family_gives_its_own_probabilities(kind):
    X, given = rows(300), rows(100, 1)
    committee = kind(n_estimators=5, random_state=0).fit(X, X[:, 0] > X[:, 2]).committee_
    out = scored(batch(given), committee, columns=NAMES, probabilities=True)
    scores = committee.class_scores(given)
    assert out.column("probabilities").to_pylist() == committee.probabilities(scores).tolist()
    expected = committee.classes[committee.predicted_indices(scores)]
    assert out.column("prediction").to_pylist() == expected.tolist()


def test_columns_that_are_not_scored_are_neither_read_nor_copied():
    committee, given = train(rows(500), ["x", "y", "z"]), batch(rows(50, 1))
    given = given.append_column("other", pa.array([[{"k": "v"}]] * 50))
    out = scored(given, committee, columns=NAMES)
    for name in given.schema.names:
        assert out.column(name).equals(given.column(name))
    before, after = given.column("a").buffers()[1], out.column("a").buffers()[1]
    assert after.address == before.address


def test_columns_of_a_frame_are_found_by_name_and_categories_by_value():
    X, town = rows(600), np.array(["Bonn", "Ulm", "Kiel"])
    towns = town[np.arange(600) % 3]
    frame = pa.table({"a": X[:, 0], "town": pa.array(towns).dictionary_encode()})
    y = np.where((towns == "Ulm") ^ (X[:, 0] > 0), "yes", "no")
    committee = SketchLogitBoostClassifier(n_estimators=20).fit(frame, y).committee_
    given = pa.RecordBatch.from_pydict({"town": towns.tolist(), "more": ["?"] * 600, "a": X[:, 0]})
    out = scored(given, committee).column("prediction").to_pylist()
    expected = committee.classes[committee.predicted_indices(committee.class_scores(frame))]
    assert out == expected.tolist()
    assert np.mean(np.array(out) == y) > 0.95


def test_batches_of_any_size_give_the_same_bits():
    committee, given = train(rows(500), ["x", "y", "z"]), batch(rows(101, 1))
    scorer = BatchScorer.create(given.schema.names, committee, columns=NAMES, probabilities=True)
    whole = scorer.score(given)
    parts = [scorer.score(given.slice(start, 7)) for start in range(0, 101, 7)]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.table(whole).combine_chunks()


def test_batch_without_rows_has_the_columns_of_the_others():
    committee, given = train(rows(500), ["x", "y", "z"]), batch(rows(9, 1))
    scorer = BatchScorer.create(given.schema.names, committee, columns=NAMES, probabilities=True)
    assert scorer.score(given.slice(0, 0)).schema == scorer.score(given).schema


def test_batch_is_read_by_the_names_of_the_data_frame():
    committee, given = train(rows(500), ["x", "y", "z"]), batch(rows(9, 1))
    scorer = sent(BatchScorer.create(given.schema.names, committee, columns=NAMES))
    assert scorer.score(given.rename_columns(["0", "1", "2", "3"])) == scorer.score(given)


def test_process_loads_a_model_once():
    given = batch(rows(9))
    serialized = BatchScorer.create(
        given.schema.names, train(rows(500), ["x", "y", "z"]), columns=NAMES
    ).to_bytes()
    assert load_cached_scorer(serialized) is load_cached_scorer(bytes(bytearray(serialized)))


def test_damaged_model_is_refused():
    serialized = bytearray(
        BatchScorer.create(NAMES, train(rows(500), ["x", "y", "z"]), columns=NAMES).to_bytes()
    )
    serialized[-9] ^= 1
    with pytest.raises(ModelFileError, match="SHA-256"):
        BatchScorer.from_bytes(bytes(serialized))


@pytest.fixture(scope="module")
def learner():
    return mixed.train()


def mixed_batch(n):
    records = [record for record, _ in mixed.labelled_records(n, 1)]
    return pa.RecordBatch.from_pylist([{"id": i, **one} for i, one in enumerate(records)])


def test_mixed_fields_are_encoded_as_by_the_learner(learner):
    records, labels = zip(*mixed.labelled_records(200, 1), strict=True)
    committee, scores = learner.committee, mixed.expected_scores(learner, records)
    with pytest.warns(UserWarning, match="'at: seconds since the record before'.*order"):
        out = scored(mixed_batch(200), committee, features=learner.features, probabilities=True)
    assert out.column("probabilities").to_pylist() == committee.probabilities(scores).tolist()
    assert np.mean(np.array(out.column("prediction").to_pylist()) == labels) > 0.8


def test_scoring_does_not_change_the_features(learner):
    given = mixed_batch(50)
    before = learner.features.state()[0]
    with pytest.warns(UserWarning, match="since the record before"):
        scorer = BatchScorer.create(
            given.schema.names, learner.committee, features=learner.features
        )
    first = scorer.score(given)
    assert scorer.score(given) == first
    assert str(learner.features.state()[0]) == str(before)


def test_maps_are_nested_fields(learner):
    given = mixed_batch(50)
    systems = [[("os", one["os"])] for one in given.column("device").to_pylist()]
    maps = pa.array(systems, pa.map_(pa.string(), pa.string()))
    as_maps = given.set_column(given.schema.names.index("device"), "device", maps)
    with pytest.warns(UserWarning, match="since the record before"):
        outs = [
            scored(one, learner.committee, features=learner.features, probabilities=True)
            for one in (given, as_maps)
        ]
    assert outs[0].column("probabilities") == outs[1].column("probabilities")


def test_columns_of_classes_that_came_after_the_training_are_left_out(learner):
    about, arrays = learner.features.state()
    later = Features.restore(about, arrays)
    later.learn(later.values({"note": "quite another thing"}), "odd")
    assert len(later) > learner.committee.n_features
    given = mixed_batch(20)
    with pytest.warns(UserWarning, match="since the record before"):
        out = scored(given, learner.committee, features=later)
    assert set(out.column("prediction").to_pylist()) <= {"bad", "good"}


@pytest.mark.parametrize(
    ("there", "given", "reason"),
    [
        (NAMES, {}, "trained on an array.*columns=, a list of 3 names"),
        (NAMES, {"columns": "abc"}, "columns='abc'.*list of 3 names"),
        (NAMES, {"columns": ["a", "b"]}, r"columns=\['a', 'b'\].*3 columns"),
        (["a", "c"], {"columns": NAMES}, r"lacks the columns \['b'\].*add"),
        ([*NAMES, "Prediction"], {"columns": NAMES}, "'Prediction', which score adds: rename"),
        ([*NAMES, "A"], {"columns": NAMES}, "'a' more than once: rename"),
        (NAMES, {"columns": NAMES, "features": Features({"a": "number"})}, "leave one of them out"),
        (NAMES, {"features": Features({"a": "number"})}, "gives 1 columns.*3"),
        (NAMES, {"features": Features(dict.fromkeys("abcd.e", "number"))}, r"fields \['d'"),
    ],
)
def test_invalid_columns_are_refused_with_a_remedy(there, given, reason):
    with pytest.raises(ConfigurationError, match=reason):
        BatchScorer.create(there, train(rows(500), ["x", "y", "z"]), **given)


def test_names_that_differ_from_those_of_the_training_are_refused():
    X = rows(500)
    committee = train(pa.table({name: X[:, i] for i, name in enumerate(NAMES)}), ["x", "y", "z"])
    assert BatchScorer.create(NAMES, committee, columns=NAMES).input_columns == tuple(NAMES)
    with pytest.raises(ConfigurationError, match=r"rename the columns of df to \['a', 'b', 'c'\]"):
        BatchScorer.create(["a", "b", "d"], committee, columns=["a", "b", "d"])


def test_text_in_a_number_column_is_refused_with_the_value():
    given = batch(rows(9)).set_column(2, "b", pa.array(["seven"] * 9))
    with pytest.raises(DataError, match="column 'b' holds 'seven'"):
        scored(given, train(rows(500), ["x", "y", "z"]), columns=NAMES)
