import numpy as np

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.learner import QueryConfig, StreamLearner
from streamboost.pipelines.config.durations import WindowSize
from streamboost.pipelines.runner.label_join import LabelJoin


def lagged(world, n_lags=2):
    """Let the world's pipeline offer its newest labels as features."""
    estimator = SketchLogitBoostClassifier(n_estimators=5, categorical_features=list(range(n_lags)))
    world.pipeline.learner = StreamLearner(
        estimator,
        query=QueryConfig(budget=0.5),
        n_features=n_lags + 2,
        random_state=3,
        label_lags=n_lags,
    )
    world.pipeline.join = LabelJoin(WindowSize.parse(50), WindowSize.parse(100), n_lags + 2)
    return world


def labels(records, truth, places):
    return [{"id": records[i]["id"], "label": truth[i]} for i in places]


def test_a_record_is_learned_with_the_labels_that_had_arrived_when_it_was_predicted(
    world, make_records
):
    records, _ = make_records(30)
    truth = ["left", "right"] * 15
    lagged(world)
    world.feed(records[:10], labels(records, truth, [0, 3]))
    world.run()
    world.feed(records[10:20], labels(records, truth, [12, 1]))
    world.run()
    world.feed(records[20:], labels(records, truth, [25]))
    world.run()
    learned = world.pipeline.learner.snapshot()["rows.X"]
    left, right, none = 0, 1, np.nan
    lags = [[none, none], [none, none], [right, left], [none, none], [right, left]]
    np.testing.assert_array_equal(learned[:, :2], lags)
    fields = [[records[i]["a"], records[i]["b"]] for i in (0, 3, 12, 1, 25)]
    np.testing.assert_allclose(learned[:, 2:], fields)


def test_requests_show_the_records_own_features_only(world, make_records):
    records, truth = make_records(40)
    lagged(world)
    world.feed(records, labels(records, truth, range(40)))
    world.run()
    assert len(world.read("requests")) > 5
    assert all(set(r["features"]) == {"a", "b"} for r in world.read("requests"))


def test_lags_survive_a_restart(world, make_records):
    records, truth = make_records(60)
    lagged(world)
    world.feed(records[:30], labels(records, truth, range(30)))
    world.run()
    X = np.zeros((1, 2), dtype=np.float32)
    before = world.pipeline.learner.add_label_lags(X)
    snapshot = world.loop.snapshot()
    world.loop = world.fresh()
    world.loop.restore(*snapshot)
    np.testing.assert_array_equal(world.pipeline.learner.add_label_lags(X), before)
