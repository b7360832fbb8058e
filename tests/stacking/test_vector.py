"""The vector expert: nearest centroids with few labels, and a logistic regression with more."""

import numpy as np
import pytest
from learner.small_learner import assert_same, small

from streamboost.features import Features
from streamboost.learner import QueryConfig, StreamLearner
from streamboost.stacking.stacking import OnlineStacking
from streamboost.stacking.vector import VectorExpert

RNG = np.random.default_rng(8)
SIZE, CLASSES, N = 12, 6, 240
CENTRES = RNG.normal(size=(CLASSES, SIZE))
K = RNG.permutation(np.arange(N) % CLASSES)
V = CENTRES[K] + RNG.normal(size=(N, SIZE))
Y = [f"c{k}" for k in K]
VALUES = [(v.tolist(),) for v in V]
IDS = [str(i) for i in range(N)]
ALL = QueryConfig(budget=1.0)


def vectors(size=SIZE):
    return Features({"vector": {"type": "vector", "size": size}})


def expert(n):
    """Return an expert trained on the first `n` records, and all rows."""
    features = vectors()
    own = VectorExpert(features, 0)
    rows = features.encode(VALUES)
    own.train(rows[:n], np.array(Y[:n]), None)
    return own, rows


def served(learner, start, stop, batch=10):
    """Score, query and learn records; return the probabilities and the requests."""
    said = []
    for at in range(start, stop, batch):
        here = slice(at, min(at + batch, stop))
        rows = learner.encode_arrivals(VALUES[here])
        scored = learner.score_rows(rows)
        asked = learner.query(rows, scored, IDS[here])
        said.append((scored.probabilities.tolist(), asked.ids, asked.propensity.tolist()))
        ids = [int(id) for id in asked.ids]
        learner.learn(
            asked.ids,
            rows[[i - at for i in ids]],
            [Y[i] for i in ids],
            propensity=asked.propensity,
            records=[VALUES[i] for i in ids],
        )
    return said


def accuracy(own, rows, of):
    return np.mean(own.score(rows[of], 1).labels == np.array(Y, dtype=object)[of])


def test_one_label_of_each_class_makes_a_nearest_centroid_classifier():
    first = [Y.index(f"c{k}") for k in range(CLASSES)]
    features = vectors()
    own, rows = VectorExpert(features, 0), features.encode(VALUES)
    own.train(rows[first], np.array(Y)[first], None)
    centred = rows - rows[first].mean(axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    nearest = np.array(Y, dtype=object)[first][(centred @ centred[first].T).argmax(axis=1)]
    assert np.mean(own.score(rows, 1).labels == nearest) > 0.95


def test_more_labels_are_more_accurate():
    few, rows = expert(30)
    many, _ = expert(160)
    rest = slice(160, None)
    assert accuracy(few, rows, rest) < accuracy(many, rows, rest)
    assert accuracy(many, rows, rest) > 0.85


def test_a_longer_vector_of_the_same_direction_is_the_same():
    own, rows = expert(100)
    mean = rows[:100].mean(axis=0)
    longer = (mean + 7.0 * (rows - mean)).astype(np.float32)
    np.testing.assert_allclose(
        own.score(longer, 1).probabilities, own.score(rows, 1).probabilities, atol=1e-4
    )


def test_rows_without_weight_and_without_vector_are_not_learned():
    own, rows = expert(60)
    more = VectorExpert(vectors(), 0)
    X = rows[:80].copy()
    X[60:70] = np.nan
    weight = np.ones(80)
    weight[70:] = 0.0
    more.train(X, np.array(Y[:60] + ["other"] * 20), weight)
    np.testing.assert_array_equal(
        more.score(rows, 1).probabilities, own.score(rows, 1).probabilities
    )


def test_it_is_there_where_vectors_are_and_only_there():
    def names(features):
        return small(features=features)._stacking.names

    assert "vector" in names(vectors())
    assert "vector" not in names(Features({"note": "text", "x": "number"}))
    assert "vector" not in small()._stacking.names
    assert "vector" not in small(features=vectors(), experts="committee")._stacking.names


def test_a_record_without_a_vector_has_the_probabilities_of_the_others():
    learner = small(features=vectors(), query=ALL, experts=["committee", "vector"])
    served(learner, 0, 80)
    rows = learner.encode_records([(None,), VALUES[90]])
    found = learner.score_rows(rows).experts
    np.testing.assert_array_equal(found[1, 0], found[0, 0])
    assert not np.array_equal(found[1, 1], found[0, 1])


def test_a_learner_restored_at_every_batch_continues_bit_for_bit():
    settings = {"query": QueryConfig(budget=0.4), "random_state": 5}
    steady = small(features=vectors(), **settings)
    stopped = small(features=vectors(), **settings)
    for start in range(0, 160, 10):
        first = served(steady, start, start + 10)
        stopped = StreamLearner.restore(stopped.snapshot())
        assert served(stopped, start, start + 10) == first
    assert_same(steady.snapshot(), stopped.snapshot())
    assert steady._stacking.vector.n_trainings > 5


def test_predictions_do_not_depend_on_the_records_scored_together():
    learner = small(features=vectors(), query=ALL)
    served(learner, 0, 120)
    rows = learner.encode_records(VALUES)
    whole = learner.score_rows(rows)
    for size in (1, 7):
        parts = [learner.score_rows(rows[i : i + size]) for i in range(0, N, size)]
        together = np.concatenate([part.probabilities for part in parts])
        np.testing.assert_array_equal(together, whole.probabilities)


def test_requests_follow_the_vector_expert_while_its_weight_is_the_largest():
    learner = small(features=vectors(), query=ALL)
    served(learner, 0, 120)
    rows = learner.encode_records(VALUES[120:])
    scored = learner.score_rows(rows)
    own = learner._stacking.vector.score(rows, 1)
    np.testing.assert_array_equal(
        learner.utility(rows, scored), learner.query_config.compute_utility(own.margins)
    )
    learner._stacking.weights[:] = [2.0, *[0.1] * (len(learner._stacking.names) - 1)]
    sample = learner._rows.training_sample()
    learner._stacking.train_expert_of_vector_fields(sample.X, sample.y, sample.weight)
    assert not np.array_equal(
        learner.utility(rows, scored), learner.query_config.compute_utility(own.margins)
    )


def test_scorers_predict_and_request_as_the_learner():
    learner, scorer = (small(features=vectors(), query=ALL, random_state=1) for _ in range(2))
    served(learner, 0, 120)
    assert learner._stacking._vector_decides
    scorer.load_scoring_state(learner.export_scoring_state())
    rows = learner.encode_records(VALUES)
    ours, theirs = (one.score_rows(rows) for one in (learner, scorer))
    np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)
    np.testing.assert_array_equal(learner.utility(rows, ours), scorer.utility(rows, theirs))


def test_a_vector_field_that_is_added_later_is_learned():
    features = Features({"x": "number"})
    learner = small(features=features, query=ALL)
    values = [(float(i % 7), *value) for i, value in enumerate(VALUES)]
    for i in range(60):
        rows = learner.encode_arrivals([values[i][:1]])
        learner.query(rows, learner.score_rows(rows), IDS[i : i + 1])
        if i == 30:
            features.add_field("vector", vectors().fields["vector"])
            learner.update_columns()
            learner = StreamLearner.restore(learner.snapshot())
            features = learner.features
        learner.learn(
            IDS[i : i + 1], learner._validated_rows(rows), Y[i : i + 1], records=[values[i][:1]]
        )
    for i in range(60, 160):
        rows = learner.encode_arrivals([values[i]])
        learner.query(rows, learner.score_rows(rows), IDS[i : i + 1])
        learner.learn(IDS[i : i + 1], rows, Y[i : i + 1], records=[values[i]])
    right = learner.score_rows(learner.encode_records(values[160:])).labels == np.array(Y[160:])
    assert right.mean() > 0.8
    assert learner.expert_weights["vector"] > 0.3


def test_renamed_classes_are_learned_again():
    learner = small(features=vectors(), query=ALL)
    served(learner, 0, 120)
    before = learner._stacking.vector.n_trainings
    learner.rename_class("c0", "c1")
    learner._stacking.vector.score(learner.encode_records(VALUES[:1]), 1)
    assert "c0" not in learner._stacking.vector._classes
    assert learner._stacking.vector.n_trainings > before


@pytest.mark.parametrize("n_classes", [300])
def test_classes_above_the_limit_are_not_learned(n_classes):
    features = vectors(4)
    own = VectorExpert(features, 0)
    X = RNG.normal(size=(n_classes, 4)).astype(np.float32)
    own.train(X, np.arange(n_classes), None)
    assert own.score(X, 1).classes.tolist() == list(range(256))


def test_all_experts_are_of_the_stack_alone():
    stack = OnlineStacking(["committee", "vector"], features=vectors())
    assert stack.names == ["committee", "vector"]
    assert stack.weights.tolist() == [0.1, 1.0]
