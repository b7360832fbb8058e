"""Classes that are merged and dropped while a pipeline runs."""

import json
from collections import Counter
from random import Random

import pytest

from streamboost.environment import environment
from streamboost.errors import StateError
from streamboost.learner.labelled_rows import VoteHistory
from streamboost.pipelines.runner.label_mapping import LabelMapping
from streamboost.pipelines.runner.replay import recover
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
    world.tell("merge", None, "right", "wrong", None, True)
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
    assert moved.pipeline.classes.current_class("laft") is None
    assert moved.pipeline.classes.current_class("right") == "left"


def test_merging_follows_what_was_merged_before():
    classes = LabelMapping()
    classes.apply_class_command(Command("merge", None, "a", "b"), "string")
    classes.apply_class_command(Command("merge", None, "b", "c"), "string")
    assert classes.current_class("a") == "c"
    with pytest.raises(StateError, match="'a' is merged into 'c' itself"):
        classes.resolve_command_classes(Command("merge", None, "c", "a"), "string")
    classes.apply_class_command(Command("drop", None, "c"), "string")
    assert classes.current_class("a") is None
    with pytest.raises(StateError, match="the class 'c' was dropped: merge into another"):
        classes.resolve_command_classes(Command("merge", None, "x", "c"), "string")


def test_classes_are_of_the_kind_that_labels_are():
    classes = LabelMapping()
    assert classes.apply_class_command(Command("merge", None, "7", "1"), "integer") == (7, 1)
    with pytest.raises(StateError, match="labels here are whole numbers"):
        classes.resolve_command_classes(Command("drop", None, "spam"), "integer")
    with pytest.raises(StateError, match="unknown before the first label"):
        classes.resolve_command_classes(Command("drop", None, "spam"), None)


def test_a_command_that_cannot_be_obeyed_enters_no_batch(world):
    fed(world)
    world.tell("drop", None, "laft")
    world.run()
    before = world.pipeline.sequence
    world.tell("merge", None, "left", "laft")
    world.run()
    assert all(not e.commands for e in world.entries()[before:])
    assert set(world.pipeline.learner.classes) == {"left", "right"}


@pytest.mark.parametrize("name", ["B\x1b[31m", "B\u202e", "B\u200b", "<b>B</b>"])
def test_queued_command_with_unclear_name_of_new_class_enters_no_batch(world, caplog, name):
    fed(world)
    world.tell("merge", None, "laft", name, None, True)
    world.tell("decide", None, None, None, {"threshold": {name: 0.9}}, True)
    world.run()
    assert all(not entry.commands for entry in world.entries())
    assert caplog.text.count("rejected: the new class") == 2


def test_what_errors_of_no_class_there_can_be_cost_is_refused(make_world, caplog):
    world = make_world(label="boolean")
    for decision in ({"costs": {"true": {"ok": 2}}}, {"threshold": {"fraud": 0.9}}):
        world.tell("decide", None, None, None, decision)
    world.tell("decide", None, None, None, {"costs": {"true": {"false": 2}}})
    world.run()
    (obeyed,) = world.entries()[-1].commands
    assert obeyed.decision == {"costs": {"true": {"false": 2}}}
    for name in ("ok", "fraud"):
        assert f"rejected: the class named is '{name}', and labels here are true" in caplog.text


def test_a_merge_that_is_undone_gives_labels_back_that_came_before_it_and_after(make_world):
    world = make_world(window=200, fields={"a": "number", "b": "number", "note": "text"})
    truth, wrong = fed(world)
    world.tell("merge", None, "laft", "left")
    more(world, 100, 20)
    came = {110: "laft", 111: "left", 112: "laft"}
    world.feed(labels=[{"id": str(i), "label": label} for i, label in came.items()])
    world.feed(labels=[{"id": str(min(wrong)), "label": "right"}])  # corrected meanwhile
    world.feed(labels=[{"id": "150", "label": "laft"}])  # waits for its record
    world.run()
    world.tell("unmerge", None, "laft")
    more(world, 120, 40)
    world.feed(labels=[{"id": "130", "label": "laft"}])
    world.run()
    learner = world.pipeline.learner
    as_given = {i: truth[i] if i not in wrong else "laft" for i in range(100)}
    as_given |= came | {min(wrong): "right", 150: "laft", 130: "laft"}
    assert {i: learner.label_of(str(i)) for i in as_given} == as_given
    assert set(learner.classes) == {"left", "right", "laft"}
    assert "laft" in learner.committee.classes.tolist(), "it was trained anew"
    assert world.pipeline.join.counts.duplicate == 0
    world.feed(labels=[{"id": "112", "label": "laft"}])
    world.run()
    assert world.pipeline.join.counts.duplicate == 1, "what is known is what was given"


def test_what_was_taken_back_or_dropped_after_a_merge_does_not_come_back_with_its_end(make_world):
    world = make_world(window=200)
    _, wrong = fed(world)
    first, second = sorted(wrong)[:2]
    world.tell("merge", None, "laft", "left")
    world.run()
    world.feed(labels=[{"id": str(first), "label": None}])
    world.run()
    world.tell("drop", None, "left")
    world.tell("unmerge", None, "laft")
    more(world, 100, 20)
    world.feed(labels=[{"id": "110", "label": "laft"}, {"id": "111", "label": "left"}])
    world.run()
    learner = world.pipeline.learner
    ids = (str(first), str(second), "110", "111")
    assert [learner.label_of(id) for id in ids] == [None, None, "laft", None]


def test_a_merge_of_a_merge_is_undone_step_by_step(make_world):
    world = make_world(window=200)
    _, wrong = fed(world)
    one, right = str(min(wrong)), str(next(i for i in range(100) if i not in wrong and i % 2))
    before = world.pipeline.learner.label_of(right)
    world.tell("merge", None, "laft", "left")
    world.run()
    world.tell("merge", None, "left", "gone", None, True)
    world.run()
    learner = world.pipeline.learner
    assert learner.label_of(one) == "gone"
    world.tell("unmerge", None, "left")
    world.run()
    assert learner.label_of(one) == "left"
    world.tell("unmerge", None, "laft")
    world.run()
    assert (learner.label_of(one), learner.label_of(right)) == ("laft", before)
    assert "gone" not in learner.classes


def test_merged_class_is_not_merged_again(make_world, caplog):
    world = make_world(window=200)
    _, wrong = fed(world)
    world.tell("merge", None, "laft", "left")
    world.run()
    world.tell("merge", None, "laft", "right")
    world.run()
    assert "the class 'laft' is merged into 'left': undo this first, with unmerge" in caplog.text
    world.tell("unmerge", None, "laft")
    world.run()
    assert world.pipeline.learner.label_of(str(min(wrong))) == "laft"


def test_votes_of_several_are_what_they_were_before_the_merge(make_world):
    world = make_world(window=200, on_conflict="vote")
    fed(world)
    more(world, 100, 20)
    said = {"ann": "laft", "bob": "left", "eve": "laft"}
    votes = [{"id": "110", "label": label, "source": who} for who, label in said.items()]
    world.feed(labels=votes)
    world.run()
    learner = world.pipeline.learner
    assert learner.label_of("110") == "laft"
    world.tell("merge", None, "laft", "left")
    world.run()
    world.feed(labels=[{"id": "110", "label": "left", "source": "eve"}])  # changes her mind
    world.run()
    assert learner.label_of("110") == "left"
    world.tell("unmerge", None, "laft")
    world.run()
    (votes,) = (row.votes for id, row, _ in learner._rows.annotated_rows() if id == "110")
    assert votes == [("ann", "laft"), ("bob", "left"), ("eve", "left")]
    assert learner.label_of("110") == "left"


class GivenLabels:
    """Labels as they were given, to say what each record's label has to be."""

    def __init__(self, rule):
        self.rule, self.given, self.merged = rule, {}, {}

    def now(self, label):
        while label in self.merged:
            label = self.merged[label]
        return label

    def give(self, id, label, source):
        self.given[id] = [] if label is None else [*self.given.get(id, []), (source, label)]

    def label_of(self, id):
        """Return the label; None if there is none, or if more than two classes tie for it."""
        given = [(source, self.now(label)) for source, label in self.given.get(id, [])]
        if not given or self.rule != "vote":
            return given[0 if self.rule == "first" else -1][1] if given else None
        votes, current = [], None
        for source, label in given:
            votes = [vote for vote in votes if source is None or vote[0] != source]
            votes.append((source, label))
            counts = Counter(vote for _, vote in votes)
            leading = [one for one in counts if counts[one] == max(counts.values())]
            current = label if current is None else current
            if current not in leading:
                if len(leading) > 1:
                    return None
                current = leading[0]
        return current


@pytest.mark.parametrize("sources", [["ann", "bob", "cat"], ["ann", None], [None]])
@pytest.mark.parametrize("rule", ["last", "first", "vote"])
@pytest.mark.quick_once
def test_labels_are_as_if_a_merge_that_is_undone_had_never_been(make_world, rule, sources):
    classes = ["low", "high", "hgih", "mid"]
    for seed in range(4):
        random = Random(seed)
        world = make_world(window=1000, expires_after=100_000, rounds=1, on_conflict=rule)
        truth = GivenLabels(rule)

        def give(ids, world=world, truth=truth, random=random):
            labels = []
            for id in ids:
                label = None if random.random() < 0.15 else random.choice(classes)
                source = random.choice(sources)
                truth.give(id, label, source)
                labels.append(
                    {"id": str(id), "label": label} | ({"source": source} if source else {})
                )
            world.feed(labels=labels)
            world.run()

        world.feed([{"id": str(n), "a": n % 7, "b": n % 3} for n in range(20)])
        for n in range(12):  # each class has labels
            truth.give(n, classes[n % 4], "base")
        world.feed(
            labels=[{"id": str(n), "label": classes[n % 4], "source": "base"} for n in range(12)]
        )
        world.run()
        for _ in range(10):  # records from 20 on come later than their labels
            give(random.choices(range(12, 28), k=5))
            merged = random.choice(classes)
            into = random.choice(classes)
            if merged in truth.merged:
                del truth.merged[merged]
                world.tell("unmerge", None, merged)
            elif truth.now(into) != merged:
                truth.merged[merged] = truth.now(into)
                world.tell("merge", None, merged, into)
            world.run()
        world.feed([{"id": str(n), "a": n % 7, "b": n % 3} for n in range(20, 28)])
        world.run()
        for merged in reversed(truth.merged):
            world.tell("unmerge", None, merged)
        truth.merged = {}
        world.run()
        learner = world.pipeline.learner
        for id in range(28):
            expected = truth.label_of(id)
            if expected is not None or not truth.given.get(id):
                assert learner.label_of(str(id)) == expected, (seed, id, truth.given[id])


def test_a_label_that_a_tie_kept_is_kept_by_a_merge_that_is_undone(make_world):
    world = make_world(window=200, on_conflict="vote")
    fed(world)
    more(world, 100, 20)
    learner = world.pipeline.learner
    for source, label in zip("abcb", ["left", "right", "right", "laft"], strict=True):
        world.feed(labels=[{"id": "110", "label": label, "source": source}])
        world.run()
    assert learner.label_of("110") == "right"
    world.tell("merge", None, "laft", "left")
    world.run()
    assert learner.label_of("110") == "left"
    again = world.fresh()
    again.restore(*world.loop.snapshot())
    for loop in (world.loop, again):
        loop.pipeline._apply_commands([Command("unmerge", None, "laft")])
        assert loop.pipeline.learner.label_of("110") == "right"


def test_a_label_in_the_batch_of_its_record_is_restored_as_is_one_that_came_before(make_world):
    world = make_world(window=200, on_conflict="vote")
    fed(world)
    world.tell("merge", None, "laft", "left")
    world.feed(labels=[{"id": "100", "label": "right", "source": "ann"}])
    world.run()
    records, _ = make_records(5, start=100)
    later = [{"id": "100", "label": "laft", "source": source} for source in ("bob", "cat")]
    world.feed(records, labels=later)
    world.run()
    learner = world.pipeline.learner
    assert learner.label_of("100") == "left"
    world.tell("unmerge", None, "laft")
    world.run()
    assert learner.label_of("100") == "laft"
    assert learner.annotator_votes("100").votes == [
        ("ann", "right"),
        ("bob", "laft"),
        ("cat", "laft"),
    ]


def test_votes_are_counted_again_when_their_classes_become_one(make_world):
    world = make_world(window=200, on_conflict="vote")
    fed(world)
    said = {"ann": "right", "bob": "laft", "eve": "left"}
    more(world, 100, 20)
    world.feed(labels=[{"id": "110", "label": one, "source": who} for who, one in said.items()])
    world.run()
    learner = world.pipeline.learner
    assert learner.label_of("110") == "right"
    world.tell("merge", None, "laft", "left")
    world.run()
    assert learner.label_of("110") == "left", "it has two of three votes"
    world.tell("unmerge", None, "laft")
    world.run()
    assert learner.label_of("110") == "right"


def test_votes_for_a_class_that_no_record_has_are_counted_again_with_its_merge(make_world):
    world = make_world(window=200, on_conflict="vote")
    fed(world)
    more(world, 100, 20)
    said = {"ann": "right", "bob": "lft", "eve": "left"}
    world.feed(labels=[{"id": "110", "label": one, "source": who} for who, one in said.items()])
    world.run()
    learner = world.pipeline.learner
    assert "lft" not in learner.classes
    learner.rename_class("lft", "left")
    assert learner.label_of("110") == "left"


def test_a_label_that_expired_before_its_record_came_does_not_come_back(make_world):
    world = make_world(window=20, on_conflict="first")
    fed(world)
    world.tell("merge", None, "laft", "left")
    world.feed(labels=[{"id": "200", "label": "laft"}])
    world.run()
    for start in range(100, 150, 10):  # what is read as a backlog does not let it expire
        more(world, start, 10)
    assert world.pipeline.join.n_pending_labels("200") == 0, "it has expired"
    world.feed(labels=[{"id": "200", "label": "right"}])
    world.run()
    records, _ = make_records(1, start=200)
    world.feed(records)
    world.run()
    assert world.pipeline.learner.label_of("200") == "right"
    world.tell("unmerge", None, "laft")
    world.run()
    assert world.pipeline.learner.label_of("200") == "right"


def test_a_null_that_has_no_effect_forgets_no_label(make_world):
    """The learner no longer has the record's row, so its label stays, and is restored."""
    world = make_world(window=50)
    fed(world)
    classes = world.pipeline.classes
    world.tell("merge", None, "laft", "left")
    world.run()
    world.feed(labels=[{"id": "99", "label": "laft"}])
    world.run()
    before = classes.to_json()["were"]["99"]
    world.pipeline.learner._rows.release_ids(["99"])
    world.feed(labels=[{"id": "99", "label": None}])
    world.run()
    assert world.pipeline.classes.to_json()["were"]["99"] == before


@pytest.mark.parametrize(
    ("rule", "first"), [("vote", "laft"), ("last", "right"), ("first", "laft")]
)
def test_dropped_class_leaves_records_the_labels_of_other_votes(make_world, rule, first):
    world = make_world(window=200, on_conflict=rule)
    fed(world)
    more(world, 100, 20)
    said = {"ann": first, "bob": "laft", "eve": "right"}
    if rule == "last":
        said["eve"] = "laft"
    world.feed(labels=[{"id": "110", "label": one, "source": who} for who, one in said.items()])
    world.feed(labels=[{"id": "111", "label": "laft", "source": "ann"}])
    world.run()
    learner = world.pipeline.learner
    assert learner.label_of("110") == "laft"
    world.tell("drop", None, "laft")
    world.run()
    assert [learner.label_of(id) for id in ("110", "111")] == ["right", None]
    kept = [vote for vote in said.items() if vote[1] == "right"]
    assert learner.annotator_votes("110").votes == kept
    join = world.pipeline.join
    assert [join.can_relabel(id) for id in ("110", "111")] == [True, False]
    world.feed(labels=[{"id": "111", "label": "left", "source": "dan"}])
    world.run()
    assert learner.label_of("111") == "left"


@pytest.mark.slow
def test_a_replay_and_a_restart_over_an_undone_merge_end_in_the_same_bits(make_world):
    world = make_world(window=60, fields={"a": "number", "b": "number", "note": "text"})
    fed(world)
    world.tell("merge", None, "laft", "left")
    more(world, 100, 20)
    world.feed(labels=[{"id": str(i), "label": "laft"} for i in range(95, 115)])
    world.run()
    moved = world.fresh()
    arrays, manifest = world.loop.snapshot()
    moved.restore(arrays, json.loads(json.dumps(manifest)))
    begun = world.pipeline.sequence
    assert manifest["classes"]["were"]
    world.tell("unmerge", None, "laft")
    more(world, 120, 20)
    ours, after = world.loop.snapshot()
    for loop, start in ((world.fresh(), None), (moved, begun)):
        saved = (arrays, manifest | {"environment": environment()})
        recover(loop, None if start is None else saved, world.pipeline.sequence)
        theirs, _ = loop.pipeline.snapshot()
        assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)
        assert loop.pipeline.classes.to_json() == after["classes"]
    assert not any(after["classes"][name] for name in ("merged", "dropped", "were"))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("merge", None, "laft", "leff"), "there is no class 'leff'; did you mean 'left'?"),
        (("merge", None, "lift", "left"), "there is no class 'lift'; did you mean 'l"),
        (("drop", None, "rigth"), "there is no class 'rigth'; did you mean 'right'?"),
        (("drop", None, "x"), "there is no class 'x': the classes are "),
        (("unmerge", None, "laft"), "the class 'laft' is not merged into another: none is"),
        (("decide", None, None, None, {"threshold": {"rigth": 0.9}}), "did you mean 'right'?"),
    ],
)
def test_a_command_about_a_class_that_there_is_not_is_refused(make_world, caplog, command, said):
    world = make_world(window=200)
    fed(world)
    world.tell(*command)
    world.run()
    assert said in caplog.text
    assert all(not entry.commands for entry in world.entries())
    assert set(world.pipeline.learner.classes) == {"left", "right", "laft"}


def test_a_class_that_another_command_of_the_same_batch_makes_is_there(make_world):
    world = make_world(window=200)
    fed(world)
    world.tell("merge", None, "left", "west", None, True)
    world.tell("merge", None, "laft", "west")
    world.tell("merge", None, "right", "east", None, True)
    world.tell("unmerge", None, "right")
    world.run()
    assert set(world.pipeline.learner.classes) == {"west", "right"}


def test_what_labels_were_is_forgotten_with_their_records():
    classes = LabelMapping()
    classes.apply_class_command(Command("merge", None, "a", "b"), "string")
    for n in range(10_000):
        classes.store_original_labels({str(n): VoteHistory([("ann", "a")])})
        classes.prune_original_labels(lambda id, n=n: int(id) > n - 100)
    assert len(classes.to_json()["were"]) < 2_500
