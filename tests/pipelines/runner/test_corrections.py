"""Repeated labels through a whole pipeline: corrected, retracted, replayed."""

import pytest

from streamboost.environment import environment
from streamboost.pipelines.runner.replay import recover


def fed(world, n=120, delay=20):
    """Feed records, each with its label later; return the truth."""
    from tests.pipelines.conftest import make_records

    records, truth = make_records(n)
    for start in range(0, n, 10):
        labels = [
            {"id": str(i), "label": truth[i]}
            for i in range(max(start - delay, 0), max(start - delay + 10, 0))
        ]
        world.feed(records[start : start + 10], labels)
        world.run()
    return truth


def other(label):
    return "left" if label == "right" else "right"


def label_of(world, id):
    return world.pipeline.learner.label_of(id)


def test_a_label_is_corrected_also_when_the_join_has_forgotten_its_record(make_world):
    world = make_world(window=20)
    truth = fed(world)
    assert world.pipeline.join._remembered_label("3") is None
    world.feed(labels=[{"id": "3", "label": other(truth[3])}])
    world.run()
    assert label_of(world, "3") == other(truth[3])
    counts = world.pipeline.join.counts
    assert (counts.corrected, counts.early, counts.conflicting) == (1, 0, 0)


def test_null_takes_a_label_back_and_an_absent_one_is_a_dead_letter(world):
    truth = fed(world)
    labels = world.pipeline.learner.n_labels
    world.feed(labels=[{"id": "90", "label": None}, {"id": "91"}, {"id": "119", "label": None}])
    world.run()
    assert label_of(world, "90") is None
    assert label_of(world, "91") == truth[91]
    counts = world.pipeline.join.counts
    assert (counts.retracted, counts.empty_label) == (1, 1)
    assert world.pipeline.learner.n_labels == labels + 1
    assert [letter["reason"] for letter in world.read("dead")] == ["missing_label"]


def test_a_label_that_was_taken_back_may_come_again(world):
    fed(world)
    world.feed(labels=[{"id": "90", "label": None}])
    world.run()
    world.feed(labels=[{"id": "90", "label": "left"}])
    world.run()
    assert label_of(world, "90") == "left"


def test_a_label_that_follows_null_in_one_batch_corrects_the_one_before(world):
    truth = fed(world)
    labels = [{"id": "90", "label": None}, {"id": "90", "label": other(truth[90])}]
    world.feed(labels=[*labels, {"id": "119", "label": "left"}])
    world.feed(labels=[{"id": "119", "label": None}, {"id": "119", "label": "right"}])
    world.run()
    assert (label_of(world, "90"), label_of(world, "119")) == (other(truth[90]), "right")
    assert world.pipeline.join._remembered_label("90") == other(truth[90])


def test_of_labels_that_wait_for_their_record_the_newest_holds(world):
    fed(world)
    world.feed(labels=[{"id": "120", "label": "left"}, {"id": "121", "label": "left"}])
    world.run()
    world.feed(labels=[{"id": "120", "label": "right"}, {"id": "121", "label": None}])
    world.run()
    world.feed([{"id": "120", "a": 0.9, "b": 0.1}, {"id": "121", "a": 0.9, "b": 0.1}])
    world.run()
    assert (label_of(world, "120"), label_of(world, "121")) == ("right", None)


def test_votes_that_come_before_their_record_all_count(make_world):
    world = make_world(on_conflict="vote")
    fed(world)
    records = [{"id": f"early {i}", "a": 0.9, "b": 0.1} for i in range(5)]
    said = (("ann", "right"), ("bob", "left"), ("dan", "left"))
    for who, label in said:  # a batch each
        world.feed(labels=[{"id": r["id"], "label": label, "source": who} for r in records])
        world.run()
    world.feed(records)
    world.run()
    assert {label_of(world, r["id"]) for r in records} == {"left"}
    annotators = world.pipeline.learner.annotators.to_json()
    assert [annotators[who]["labels"] for who, _ in said] == [5, 5, 5]


@pytest.mark.parametrize("window", [20, 1_000])
@pytest.mark.parametrize("rule", ["last", "first", "vote"])
def test_label_taken_back_and_given_again_is_learned(make_world, window, rule):
    world = make_world(window=window, on_conflict=rule)
    truth = fed(world)
    before = world.pipeline.join.counts.answered
    for label in (None, other(truth[3])):
        world.feed(labels=[{"id": "3", "label": label, "source": "ann"}])
        world.run()
    assert label_of(world, "3") == other(truth[3])
    counts = world.pipeline.join.counts
    assert (counts.retracted, counts.corrected, counts.late) == (1, 1, 0)
    assert counts.answered == before
    learned = world.pipeline.counters()["committee"]["labels"]
    assert learned == counts.answered + counts.unsolicited


def test_label_taken_back_within_the_window_is_learned_again_after_it(make_world):
    world = make_world(window=20)
    truth = fed(world)
    world.feed(labels=[{"id": "95", "label": None}])
    world.run()
    records = [{"id": f"more {i}", "a": 0.9, "b": 0.1} for i in range(60)]
    world.pass_by(records[:30])  # its record leaves
    world.feed(labels=[{"id": "95", "label": truth[95]}])
    world.run()
    assert label_of(world, "95") == truth[95]


def test_label_given_again_keeps_row_and_propensity_of_the_first(make_world):
    world = make_world()
    truth = fed(world)
    rows = world.pipeline.learner._rows
    (asked,) = [i for i in ("90", "91", "92", "93") if i in world.pipeline.join._known_labels][:1]
    before = rows.find(asked)[1].tolist()
    chance = rows._rows.view().propensity[rows._rows.view().order == rows.find(asked)[0].order]
    for label in (None, truth[int(asked)]):
        world.feed(labels=[{"id": asked, "label": label}])
        world.run()
    assert rows.find(asked)[1].tolist() == before
    assert rows._rows.view().propensity[-1:].tolist() == pytest.approx(chance.tolist(), nan_ok=True)


def test_label_taken_back_and_given_again_is_restored_and_replayed_to_the_same_bits(make_world):
    world = make_world(window=20)
    truth = fed(world)
    world.feed(labels=[{"id": str(i), "label": None} for i in range(10)])
    world.run()
    arrays, manifest = world.loop.snapshot()
    world.feed(labels=[{"id": str(i), "label": other(truth[i])} for i in range(10)])
    world.run()
    loops = world.loop, world.fresh(), world.fresh()
    recover(loops[1], None, world.pipeline.sequence)
    manifest["environment"] = environment()
    recover(loops[2], (arrays, manifest), world.pipeline.sequence)
    ours, *theirs = (one.pipeline.snapshot()[0] for one in loops)
    assert all(a.tobytes() == one[name].tobytes() for one in theirs for name, a in ours.items())
    assert [label_of(world, str(i)) for i in range(10)] == [other(truth[i]) for i in range(10)]


def test_a_correction_in_the_batch_of_the_label_it_corrects_holds(world):
    fed(world)
    world.feed(labels=[{"id": "119", "label": "left"}, {"id": "119", "label": "right"}])
    world.run()
    assert label_of(world, "119") == "right"


def test_a_replay_with_corrections_ends_in_the_same_bits(make_world):
    world = make_world(window=20)
    truth = fed(world)
    for i in range(0, 100, 3):
        label = None if i % 2 else other(truth[i])
        world.feed(labels=[{"id": str(i), "label": label, "source": f"person {i % 5}"}])
        if i % 9 == 0:
            world.run()
    world.run()
    again = world.fresh()
    recover(again, None, world.pipeline.sequence)
    ours, theirs = (one.pipeline.snapshot() for one in (world.loop, again))
    assert ours[1]["digest"] == theirs[1]["digest"]
    assert all(ours[0][name].tobytes() == theirs[0][name].tobytes() for name in ours[0])
    assert world.pipeline.join.counts.corrected > 10
    assert world.pipeline.join.counts.retracted > 10


@pytest.mark.parametrize("kept", [True, False])
def test_a_snapshot_with_ids_is_restored_to_the_same_bits(make_world, kept):
    world = make_world(window=20)
    truth = fed(world)
    arrays, manifest = world.loop.snapshot()
    moved = world.fresh()
    moved.restore(arrays, manifest)
    id = "3" if kept else "no such record"
    assert moved.pipeline.learner.label_of(id) == (truth[3] if kept else None)
    again = moved.snapshot()[0]
    assert all(arrays[name].tobytes() == again[name].tobytes() for name in arrays)
