import numpy as np

from streamboost.learner import Schedule, StreamLearner


def test_drift_is_judged_by_the_predictions_made_on_arrival_however_late_the_labels(
    world, make_records
):
    learner = world.pipeline.learner
    world.pipeline.learner = StreamLearner(
        learner.estimator, schedule=Schedule(on_drift="adwin"), n_features=2, random_state=3
    )
    records, truth = make_records(90)
    labels = [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]
    world.feed(records[:50], labels[:50])
    world.run()
    world.feed(records[50:])
    world.run()  # all are predicted before any of their labels is known
    world.feed(labels=labels[50:])
    world.run()
    predicted = {p["id"]: p["label"] for p in world.read("predictions")}
    wrong = [predicted[label["id"]] != label["label"] for label in labels[50:]]
    arrays, _ = world.loop.snapshot()
    judged = arrays["learner.drift.error"][-40:]
    np.testing.assert_array_equal(judged, wrong)
    now = world.pipeline.learner.predict(np.array([[r["a"], r["b"]] for r in records[50:]]))
    assert (now != truth[50:]).tolist() != wrong  # those of today's committee would tell another
