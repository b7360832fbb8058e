"""Classes that are merged and dropped while a pipeline runs."""

import pytest

from streamboost.errors import StateError
from streamboost.pipelines.engine.changes import Classes
from streamboost.pipelines.engine.replay import recover
from streamboost.pipelines.state.commands import Command
from tests.pipelines.conftest import make_records


def labels_of(truth, start, stop, wrong=()):
    """Return labels of records; those `wrong` are misspelt."""
    return [
        {"id": str(i), "label": truth[i] if i not in wrong else truth[i].replace("e", "a")}
        for i in range(start, stop)
    ]


def fed(world, n=100, **about):
    """Feed records with their labels, every fourth `left` misspelt as `laft`."""
    records, truth = make_records(n)
    wrong = {i for i in range(n) if truth[i] == "left" and i % 4 == 0}
    world.pass_by(records)
    world.feed(labels=labels_of(truth, 0, n, wrong))
    world.run()
    return truth, wrong


def more(world, start, n):
    records, truth = make_records(n, start=start)
    world.feed(records)
    world.run()
    return [p["label"] for p in world.read("predictions")[start : start + n]], truth


@pytest.mark.parametrize("fields", [None, {"a": "number", "b": "number", "note": "text"}])
def test_a_misspelt_class_becomes_one_with_the_right_one(make_world, fields):
    world = make_world(window=200, fields=fields)
    _, wrong = fed(world)
    learner = world.pipeline.learner
    assert set(learner.classes) == {"left", "right", "laft"}
    world.tell("merge", None, "laft", "left")
    world.run()
    assert set(learner.classes) == {"left", "right"}
    assert learner.label_of(str(min(wrong))) == "left"
    predicted, _ = more(world, 100, 20)
    assert "laft" not in predicted
    assert set(learner.committee.classes.tolist()) == {"left", "right"}


def test_labels_of_a_merged_class_that_come_later_are_of_the_other(make_world):
    world = make_world(window=200)
    fed(world)
    world.tell("merge", None, "laft", "left")
    world.run()
    more(world, 100, 20)
    world.feed(labels=[{"id": "110", "label": "laft"}, {"id": "111", "label": "laft"}])
    world.run()
    assert world.pipeline.learner.label_of("110") == "left"
    assert set(world.pipeline.learner.classes) == {"left", "right"}


def test_labels_of_a_dropped_class_become_dead_letters(make_world):
    world = make_world(window=200)
    _, wrong = fed(world)
    world.tell("drop", None, "laft")
    world.run()
    learner = world.pipeline.learner
    assert set(learner.classes) == {"left", "right"}
    assert learner.label_of(str(min(wrong))) is None
    more(world, 100, 20)
    world.feed(labels=[{"id": "110", "label": "laft"}, {"id": str(min(wrong)), "label": "left"}])
    world.run()
    [letter] = world.read("dead")
    assert letter["reason"] == "dropped_class"
    assert "the class 'laft' was dropped" in letter["detail"]
    assert learner.label_of("110") is None
    assert learner.label_of(str(min(wrong))) == "left", "the record can still be labelled"


def test_what_is_scored_before_the_next_training_is_of_the_classes_there_are(make_world):
    world = make_world(window=200)
    fed(world)
    world.tell("pause")
    world.tell("drop", None, "laft")
    world.tell("merge", None, "right", "wrong")
    world.run()
    learner = world.pipeline.learner
    assert "laft" in learner.committee.classes.tolist(), "it was not trained anew"
    predicted, _ = more(world, 100, 50)
    assert set(predicted) <= {"left", "wrong"}
    assert "wrong" in predicted


def test_a_label_that_waits_is_of_the_class_that_it_became(make_world):
    world = make_world(window=200)
    fed(world)
    world.feed(labels=[{"id": "100", "label": "laft"}, {"id": "101", "label": "right"}])
    world.run()
    world.tell("merge", None, "laft", "left")
    world.tell("drop", None, "right")
    more(world, 100, 10)
    learner = world.pipeline.learner
    assert (learner.label_of("100"), learner.label_of("101")) == ("left", None)


def test_a_replay_over_merged_and_dropped_classes_ends_in_the_same_bits(make_world):
    world = make_world(window=60, fields={"a": "number", "b": "number", "note": "text"})
    fed(world)
    world.tell("merge", None, "laft", "left")
    more(world, 100, 20)
    world.feed(labels=[{"id": str(i), "label": "laft"} for i in range(95, 115)])
    world.run()
    world.tell("drop", None, "laft")
    world.tell("merge", None, "right", "left")
    more(world, 120, 20)
    world.feed(labels=[{"id": str(i), "label": "laft"} for i in range(120, 130)])
    world.feed(labels=[{"id": str(i), "label": "third"} for i in range(130, 140)])
    world.run()
    again = world.fresh()
    recover(again, None, world.pipeline.sequence)
    ours, theirs = (one.pipeline.snapshot()[0] for one in (world.loop, again))
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)
    moved = world.fresh()
    moved.restore(*world.loop.snapshot())
    assert moved.pipeline.classes.now("laft") is None
    assert moved.pipeline.classes.now("right") == "left"


def test_merging_follows_what_was_merged_before():
    classes = Classes()
    classes.obey(Command("merge", None, "a", "b"), "string")
    classes.obey(Command("merge", None, "b", "c"), "string")
    assert classes.now("a") == "c"
    with pytest.raises(StateError, match="'a' was merged into 'c' before"):
        classes.check(Command("merge", None, "c", "a"), "string")
    classes.obey(Command("drop", None, "c"), "string")
    assert classes.now("a") is None
    with pytest.raises(StateError, match="the class 'c' was dropped: merge into another"):
        classes.check(Command("merge", None, "x", "c"), "string")


def test_classes_are_of_the_kind_that_labels_are():
    classes = Classes()
    assert classes.obey(Command("merge", None, "7", "1"), "integer") == (7, 1)
    with pytest.raises(StateError, match="labels here are whole numbers"):
        classes.check(Command("drop", None, "spam"), "integer")
    with pytest.raises(StateError, match="no label has come yet"):
        classes.check(Command("drop", None, "spam"), None)


def test_a_command_that_cannot_be_obeyed_enters_no_batch(world):
    fed(world)
    world.tell("drop", None, "laft")
    world.run()
    before = world.pipeline.sequence
    world.tell("merge", None, "left", "laft")
    world.run()
    assert all(not e.commands for e in world.entries()[before:])
    assert set(world.pipeline.learner.classes) == {"left", "right"}


def test_what_errors_of_no_class_there_can_be_cost_is_refused(make_world, caplog):
    world = make_world(label="boolean")
    for decision in ({"costs": {"true": {"ok": 2}}}, {"threshold": {"fraud": 0.9}}):
        world.tell("decide", None, None, None, decision)
    world.tell("decide", None, None, None, {"costs": {"true": {"false": 2}}})
    world.run()
    (obeyed,) = world.entries()[-1].commands
    assert obeyed.decision == {"costs": {"true": {"false": 2}}}
    for name in ("ok", "fraud"):
        assert f"not obeyed: the class named is '{name}', and labels here are true" in caplog.text
