import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

from streamboost import Committee, GambleClassifier, RebelClassifier, SketchLogitBoostClassifier
from streamboost.errors import DataError, ModelFileError
from streamboost.storage import read_arrays, write_arrays

X, y = load_iris(return_X_y=True)


TREES = [GambleClassifier(), SketchLogitBoostClassifier()]
SIMILARITIES = RebelClassifier(weak_learner="localized_similarity")


@pytest.fixture(scope="module", params=[*TREES, SIMILARITIES], ids=str)
def committee(request):
    return clone(request.param).set_params(n_estimators=5, random_state=0).fit(X, y).committee_


@pytest.fixture
def path(committee, tmp_path):
    committee.save(tmp_path / "model")
    return tmp_path / "model"


def test_a_saved_committee_scores_the_same(committee, path):
    again = Committee.load(path)
    np.testing.assert_array_equal(again.class_scores(X), committee.class_scores(X))
    F = committee.class_scores(X)
    np.testing.assert_array_equal(again.probabilities(F), committee.probabilities(F))
    assert (again.n_trees, again.n_rounds, again.version) == (5, 5, 0)


def test_similarity_is_the_share_of_trees_with_a_common_leaf():
    model = SketchLogitBoostClassifier(n_estimators=9, random_state=0).fit(X, y)
    similarity = model.committee_.leaf_similarity(X)
    assert similarity.shape == (len(X),)
    assert similarity[0] == 1.0
    assert set((similarity * 9).round(9)) <= set(range(10))
    assert similarity[y == 0].min() > similarity[y != 0].max()
    with pytest.raises(DataError, match="trees"):
        clone(SIMILARITIES).set_params(n_estimators=2).fit(X, y).committee_.leaf_similarity(X)


@pytest.mark.parametrize("labels", [["ä", "b", "c"], [3, 1, 2], [True, False, True]])
def test_labels_keep_their_type(labels, tmp_path):
    names = np.array(labels)[y]
    model = SketchLogitBoostClassifier(n_estimators=2).fit(X, names)
    model.committee_.save(tmp_path / "model")
    again = Committee.load(tmp_path / "model")
    np.testing.assert_array_equal(again.classes, model.classes_)
    assert again.classes.dtype == model.classes_.dtype


@pytest.mark.parametrize("estimator", [GambleClassifier, SketchLogitBoostClassifier])
def test_a_saved_committee_can_be_extended(estimator, tmp_path):
    model = estimator(n_estimators=5, random_state=0).fit(X, y)
    model.committee_.save(tmp_path / "model")
    rows = X.astype(np.float32)
    loaded = Committee.load(tmp_path / "model")
    one = model.train(rows, y, seed=3, committee=loaded, n_estimators=4)
    two = model.train(rows, y, seed=3, committee=model.committee_, n_estimators=4)
    assert one.n_rounds == 9
    np.testing.assert_array_equal(one.class_scores(X), two.class_scores(X))


def test_arrays_of_something_else_are_refused():
    with pytest.raises(ModelFileError, match="not a committee's"):
        Committee.from_arrays({})


def test_another_family_may_not_extend_it():
    sketch = SketchLogitBoostClassifier(n_estimators=2).fit(X, y).committee_
    with pytest.raises(DataError, match=r"softmax.*gamble"):
        GambleClassifier().train(X.astype(np.float32), y, seed=0, committee=sketch)


def test_a_truncated_file_is_refused(path):
    blob = path.read_bytes()
    for length in (0, 4, 100, len(blob) // 2, len(blob) - 1):
        path.write_bytes(blob[:length])
        with pytest.raises(ModelFileError, match="truncated"):
            Committee.load(path)


def test_every_flipped_bit_is_noticed(path):
    blob = path.read_bytes()
    rng = np.random.default_rng(0)
    for at in [*range(0, 200, 7), *rng.integers(0, len(blob), 100)]:
        damaged = bytearray(blob)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError):
            Committee.load(path)
    path.write_bytes(blob)
    Committee.load(path)


def test_another_version_is_refused_by_name(committee, path, monkeypatch):
    monkeypatch.setattr("streamboost.storage.FORMAT", "9.9")
    committee.save(path)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match=r"format '9\.9'"):
        Committee.load(path)


@pytest.mark.parametrize("model", TREES, ids=str)
def test_a_node_index_out_of_range_is_refused(model, tmp_path):
    committee = clone(model).set_params(n_estimators=5).fit(X, y).committee_
    path = tmp_path / "model"
    damages = ("feature", 4), ("left", 10_000), ("right", -10_000), ("left", 0)
    for name, value in damages:
        arrays = {k: v.copy() for k, v in committee.to_arrays().items()}
        arrays[f"nodes.{name}"][0] = value
        write_arrays(path, arrays, kind="committee")
        with pytest.raises(ModelFileError, match="out of range"):
            Committee.load(path)


def test_a_pickle_is_never_read(committee, path):
    path.write_bytes(pickle.dumps(committee))
    with pytest.raises(ModelFileError, match="pickle"):
        Committee.load(path)


def test_a_missing_file_and_another_kind_are_told_apart(path, tmp_path):
    with pytest.raises(ModelFileError, match="cannot be read"):
        Committee.load(tmp_path / "nowhere")
    arrays, _ = read_arrays(path, kind="committee")
    write_arrays(path, arrays, kind="snapshot")
    with pytest.raises(ModelFileError, match="of kind 'snapshot', not 'committee'"):
        Committee.load(path)


def test_scoring_other_columns_is_refused(committee):
    with pytest.raises(DataError, match=r"shape \(150, 3\).*4 features"):
        committee.class_scores(X[:, :3])
