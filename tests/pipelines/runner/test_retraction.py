"""Labels of one annotator that are taken back."""

import msgspec
import pytest

from streamboost.pipelines.runner.replay import recover
from streamboost.pipelines.state.commands import Command
from tests.pipelines.conftest import make_records


def tell(world, *, annotator):
    command = Command("retract", annotator=annotator)
    world.commands.append([msgspec.json.encode(command)])


def fed(world, n=120):
    """Feed records with labels by ann and, for every third, only by eve, who is always wrong."""
    records, truth = make_records(n)
    other = {"left": "right", "right": "left"}
    world.pass_by(records)
    world.feed(
        labels=[
            {"id": str(i), "label": other[truth[i]], "source": "eve"}
            if i % 3 == 0
            else {"id": str(i), "label": truth[i], "source": "ann"}
            for i in range(n)
        ]
    )
    world.run()
    return truth


@pytest.mark.parametrize("fields", [None, {"a": "number", "b": "number", "note": "text"}])
def test_the_labels_of_one_are_taken_back_and_those_of_the_others_stay(make_world, fields):
    world = make_world(window=300, expires_after=300, fields=fields)
    truth = fed(world)
    both = {"id": "1", "label": "left" if truth[1] == "right" else "right", "source": "eve"}
    early = [{"id": id, "label": "left", "source": "eve"} for id in ("150", "151")]
    world.feed(labels=[both, *early, {"id": "151", "label": "right", "source": "ann"}])
    world.run()
    learner = world.pipeline.learner
    assert learner.label_of("1") == both["label"]
    version = learner.committee.version
    tell(world, annotator="eve")
    world.run()
    found = {i: learner.label_of(str(i)) for i in range(120)}
    assert found == {i: None if i % 3 == 0 else truth[i] for i in range(120)}
    assert learner.committee.version > version
    records, _ = make_records(60, start=120)
    world.pass_by(records)
    assert learner.label_of("150") is None
    assert learner.label_of("151") == "right"
    world.feed(labels=[{"id": "0", "label": truth[0], "source": "eve"}])  # she may label again
    world.run()
    assert learner.label_of("0") == truth[0]


def test_a_waiting_label_is_taken_back_in_the_batch_of_its_record(make_world):
    world = make_world(window=300, expires_after=300)
    fed(world)
    world.feed(labels=[{"id": "125", "label": "left", "source": "eve"}])
    world.run()
    records, truth = make_records(20, start=120)
    tell(world, annotator="eve")
    world.feed(records[:10], [{"id": "126", "label": truth[6], "source": "eve"}])
    world.run()
    learner = world.pipeline.learner
    assert learner.label_of("125") is None
    assert learner.label_of("126") == truth[6], "it was given after the command"
    assert world.pipeline.join.counts.retracted == 41


def test_a_second_command_finds_nothing_and_trains_nothing(make_world):
    world = make_world(window=300, expires_after=300)
    fed(world)
    tell(world, annotator="eve")
    world.run()
    version = world.pipeline.learner.committee.version
    tell(world, annotator="eve")
    world.run()
    assert world.pipeline.learner.committee.version == version
    assert world.pipeline.join.counts.retracted == 40


def test_the_estimates_are_those_of_the_labels_that_stay(make_world):
    world = make_world(
        window=300, expires_after=300, budget=1.0, query={"strategy": "random", "audit": 0.0}
    )
    records, truth = make_records(120)
    for start in range(0, 120, 10):
        world.pass_by(records[start : start + 10])
        labels = [
            {"id": str(i), "label": truth[i] if i % 3 else "neither", "source": "ae"[i % 3 == 0]}
            for i in range(start, start + 10)
        ]
        world.feed(labels=labels)
        world.run()
    evaluation = world.pipeline.learner.evaluation
    before = evaluation.since_start()
    tell(world, annotator="e")
    world.run()
    after = evaluation.since_start()
    assert before.left_out == ("e",), "her labels disagree with the predictions"
    assert before.accuracy_with_left_out.value < before.committee.accuracy.value
    assert after.answered == 80
    assert after.accuracy_with_left_out == after.committee.accuracy


def test_a_replay_takes_the_same_labels_back(make_world):
    world = make_world(window=300, expires_after=300)
    fed(world)
    tell(world, annotator="eve")
    world.run()
    world.pass_by(make_records(20, start=120)[0])
    again = world.fresh()
    recover(again, None, world.pipeline.sequence)
    assert again.pipeline.digest == world.pipeline.digest
    assert again.pipeline.learner.label_of("0") is None


def test_an_annotator_without_labels_is_refused(make_world, caplog):
    world = make_world(window=300, expires_after=300)
    fed(world)
    tell(world, annotator="Eve")
    world.run()
    assert "there are no labels of the annotator 'Eve'; did you mean 'eve'?" in caplog.text
    assert world.pipeline.learner.label_of("0") is not None


def test_the_end_of_a_merge_does_not_bring_back_what_was_taken_back(make_world):
    world = make_world(window=300, expires_after=300, on_conflict="vote")
    truth = fed(world)
    world.feed(
        labels=[
            {"id": "3", "label": "laft", "source": "eve"},
            {"id": "3", "label": "laft", "source": "ann"},
            {"id": "6", "label": "laft", "source": "eve"},
        ]
    )
    world.run()
    world.tell("merge", None, "laft", "left")
    world.run()
    tell(world, annotator="eve")
    world.run()
    world.tell("unmerge", None, "laft")
    world.run()
    learner = world.pipeline.learner
    assert learner.label_of("6") is None
    assert learner.annotator_votes("3").votes == [("ann", "laft")]
    assert learner.label_of("1") == truth[1]
