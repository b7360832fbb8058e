"""Label lags as columns before a record's features: each column keeps its name."""

import numpy as np
import pytest

from tests.pipelines.publishing import open_in, run


def mixed_records(n, start=0, seed=0):
    """Return records of a number and a text whose labels hang on the number alone, and those."""
    a = np.random.default_rng(seed).random(start + n).round(3)[start:]
    records = [{"id": str(start + i), "a": v, "note": "x"} for i, v in enumerate(a.tolist())]
    return records, ["left" if value > 0.5 else "right" for value in a]


@pytest.fixture
def lagging(make_world, make_records, tmp_path):
    world = make_world(label_lags=1, expires_after=400)
    records, truth = make_records(200)
    world.feed(records[:100])
    world.run()
    asked = sorted(open_in(world), key=int)
    world.feed(labels=[{"id": id, "label": truth[int(id)]} for id in asked])
    world.run()
    world.feed(records[100:])
    run(world, tmp_path)
    return world, records, dict(zip(asked, (truth[int(id)] for id in asked), strict=True))


def test_what_is_typical_of_a_class_is_of_the_column_that_bears_the_name(lagging, reader):
    _, records, learned = lagging
    typical = reader.document("typical")
    assert typical["names"] == ["a", "b"]
    for label, medians in zip(typical["classes"], typical["medians"], strict=True):
        values = [
            sorted(records[int(id)][n] for id in learned if learned[id] == label) for n in "ab"
        ]
        expected = [column[round(0.5 * (len(column) - 1))] for column in values]
        assert medians == pytest.approx(expected)


def test_the_nearest_labelled_records_are_near_in_the_columns_that_are_named(lagging, reader):
    _, records, learned = lagging
    there = np.array([[records[int(id)][name] for name in "ab"] for id in learned])
    middle, spread = there.mean(axis=0), there.std(axis=0)
    compared = [one for one in reader.requests() if one["near"]]
    assert compared
    for one in compared:
        wanted = [one["features"][name] for name in "ab"]
        away = (((there - middle) / spread - (wanted - middle) / spread) ** 2).sum(axis=1)
        expected = [list(learned)[place] for place in np.argsort(away)[:3]]
        assert [found["id"] for found in one["near"]] == expected


def test_a_version_goes_by_the_same_columns_when_a_class_has_brought_more(
    make_world, tmp_path, reader
):
    world = make_world(
        label_lags=1,
        expires_after=400,
        fields={"a": "number", "note": "text"},
        first=20,
        growth=1_000.0,
        retrain_every=None,
        extend_every=None,
    )
    records, truth = mixed_records(120)
    world.feed(records[:100])
    world.run()
    asked = sorted(open_in(world), key=int)
    world.feed(labels=[{"id": id, "label": truth[int(id)]} for id in asked[:-1]])
    run(world, tmp_path)
    before = reader.document("importances")
    assert max(before, key=before.get) == "a"
    version, columns = world.pipeline.learner.committee.version, world.pipeline.learner.n_features
    world.feed(labels=[{"id": asked[-1], "label": "third"}])
    world.run()
    world.feed(records[100:])
    run(world, tmp_path)
    learner = world.pipeline.learner
    assert (learner.committee.version, learner.n_features) == (version, columns + 1)
    assert reader.document("importances") == before
