"""Replay of a journal: the same steps, the same bits, no output."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.errors import GapError, StateError
from streamboost.pipelines.runner import replay as recovery
from streamboost.pipelines.runner.replay import Replay, recover, snapshot_digest
from streamboost.pipelines.state.journal import JournalExtras

SCHEDULES = {
    "inline": {"growth": 1.3},
    "judged": {"growth": 1.3, "promotion": "better", "n_evaluation_labels": 5},
    "background": {"growth": 1.3, "training": "background"},
    "background, judged": {
        "training": "background",
        "promotion": "better",
        "n_evaluation_labels": 5,
    },
}


def feed(world, make_records, n, start=0):
    records, truth = make_records(n, start)
    world.feed(records, [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)])


def replayed(world, checkpoint=None, **options):
    """Return a fresh loop, its pipeline brought to where the journal ends."""
    loop = world.fresh()
    recover(loop, checkpoint, world.transaction.last_committed_batch().sequence, **options)
    return loop


def assert_same_state(first, second):
    assert snapshot_digest(*first.snapshot()) == snapshot_digest(*second.snapshot())


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES.keys())
def test_a_replay_ends_in_the_same_bits_and_writes_nothing(make_world, make_records, schedule):
    world = make_world(**schedule)
    feed(world, make_records, 120)
    world.run()
    before = world.predictions.payloads(), world.requests.payloads(), world.entries()
    assert_same_state(replayed(world), world.loop)
    assert (world.predictions.payloads(), world.requests.payloads(), world.entries()) == before
    assert any(entry.trainings for entry in world.entries())


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES.keys())
def test_a_pipeline_killed_after_any_batch_goes_on_as_the_journal_says(
    make_world, make_records, schedule
):
    """Without a checkpoint, with an old one, and with one of the last batch."""
    world = make_world(**schedule)
    checkpoint = None
    for start in range(0, 120, 20):
        feed(world, make_records, 20, start)
        world.run()
        if start == 40:
            world.loop.about = {"environment": recovery.environment()}
            arrays, manifest = world.loop.snapshot()
            checkpoint = arrays, json.loads(json.dumps(manifest | world.loop.about))
        world.loop = replayed(world, checkpoint)
    assert [p["id"] for p in world.read("predictions")] == [str(i) for i in range(120)]
    assert_same_state(world.loop, replayed(world))


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 25), st.sampled_from([None, "pause", "resume", "retrain", 1, 3])),
        max_size=8,
    ),
    st.sampled_from(sorted(SCHEDULES)),
)
@pytest.mark.slow
def test_commands_and_restarts_leave_a_state_that_the_journal_alone_gives(
    make_world, make_records, batches, schedule
):
    world = make_world(rounds=2, **SCHEDULES[schedule])
    at = 0
    for n, command in batches:
        feed(world, make_records, n, at)
        at += n
        if isinstance(command, int):
            world.tell("rollback", command)
        elif command:
            world.tell(command)
        world.run()
        if world.transaction.last_committed_batch():
            world.loop = replayed(world)
    if at:
        assert_same_state(world.loop, replayed(world))


def test_a_batch_that_does_not_come_out_as_it_did_stops_with_its_number(world, make_records):
    feed(world, make_records, 30)
    world.run()
    original = world.records.read

    def changed(partition, start, limit):
        payloads = original(partition, start, limit)
        return [p.replace(b'"id": "14", "a": 0', b'"id": "14", "a": 9') for p in payloads]

    world.records.read = changed
    with pytest.raises(StateError, match=r"the replay of batch 2 differs.*the digests differ"):
        replayed(world)


def test_messages_that_are_gone_are_a_gap_with_their_range(world, make_records):
    feed(world, make_records, 30)
    world.run()
    original = world.records.read
    world.records.read = lambda name, start, limit: original(name, start, max(0, 5 - start))
    with pytest.raises(
        GapError,
        match=r"only 5 of the 10 records of a batch are left \(partition 0, offsets 0 to 10\).*"
        r'on_data_loss = "continue" to continue without learning from batches 1 to 3',
    ):
        replayed(world)


def test_another_environment_is_replayed_without_comparing_and_said(
    world, make_records, monkeypatch, caplog
):
    feed(world, make_records, 30)
    world.run()
    there = recovery.environment()
    here = there | {"numpy": "99.0"}
    world.loop = replayed(world)
    monkeypatch.setattr(recovery, "environment", lambda: here)
    loop = replayed(world)
    assert loop.pipeline.journal_extras == JournalExtras(environment=here)
    world.loop = loop
    feed(world, make_records, 10, 30)
    world.run()
    assert world.entries()[-1].environment == here
    assert "another environment" not in caplog.text, "the first run has not said its own"


def test_the_journal_says_in_which_environment_it_begins_and_each_change_once(
    world, make_records, monkeypatch, caplog
):
    here = recovery.environment()
    world.loop = world.fresh()
    recover(world.loop, None, 0)
    feed(world, make_records, 20)
    world.run()
    world.loop = replayed(world)
    feed(world, make_records, 10, 20)
    world.run()
    other = here | {"numpy": "99.0"}
    monkeypatch.setattr(recovery, "environment", lambda: other)
    world.loop = replayed(world)
    assert f"numpy {here['numpy']} is now 99.0" in caplog.text
    feed(world, make_records, 10, 30)
    world.run()
    assert [entry.environment for entry in world.entries()] == [here, None, None, other]


def test_in_another_environment_a_digest_is_not_compared(world, make_records, monkeypatch):
    recover(world.loop, None, 0)
    feed(world, make_records, 20)
    world.run()
    world.records.read = lambda *where: [b'{"id": "1", "a": 1}'] * 10
    monkeypatch.setattr(recovery, "environment", lambda: {"numpy": "99.0"})
    replay = Replay(world.fresh(), None)
    replay.run(2)
    assert not replay.is_same


def test_a_stop_ends_a_replay_between_two_batches(world, make_records):
    feed(world, make_records, 60)
    world.run()
    loop = world.fresh()
    reread = loop.intake.reread_batch

    def once(*arguments):
        loop.stop.request_stop()
        return reread(*arguments)

    loop.intake.reread_batch = once
    recover(loop, None, 6)
    assert loop.pipeline.sequence == 1


def test_a_rollback_serves_the_old_committee_under_a_new_number(world, make_records):
    feed(world, make_records, 100)
    world.run()
    served = world.pipeline.learner.committee
    old = world.pipeline.versions.version_numbers[-3]
    world.tell("pause")
    world.tell("rollback", old)
    feed(world, make_records, 20, 100)
    world.run()
    entry = world.entries()[-2]
    assert [str(command) for command in entry.commands] == ["pause", f"rollback {old}"]
    assert entry.promoted == world.pipeline.learner.committee.version == served.version + 1
    assert {p["version"] for p in world.read("predictions")[-20:]} == {served.version + 1}
    assert_same_state(world.loop, replayed(world))


def test_a_challenger_is_kept_as_a_version_also_while_it_does_not_serve(make_world, make_records):
    world = make_world(training="background", promotion="better", n_evaluation_labels=1000)
    feed(world, make_records, 100)
    world.run()
    challenger = world.pipeline.learner.trainer.challenger
    assert challenger.version in world.pipeline.versions.version_numbers
    assert challenger.version not in [entry.promoted for entry in world.entries()]
    world.tell("rollback", challenger.version)
    world.run()
    assert world.pipeline.learner.committee.learners is challenger.learners


def test_a_challenger_is_promoted_before_the_labels_have_decided(make_world, make_records):
    world = make_world(training="background", promotion="better", n_evaluation_labels=1000)
    feed(world, make_records, 100)
    world.run()
    challenger = world.pipeline.learner.trainer.challenger
    world.tell("promote")
    world.tell("promote")  # there is none left by then
    feed(world, make_records, 10, 100)
    world.run()
    entry = next(entry for entry in world.entries() if entry.commands)
    assert entry.promoted == challenger.version
    assert {p["version"] for p in world.read("predictions")[-10:]} == {challenger.version}
    assert_same_state(world.loop, replayed(world))


def test_without_a_challenger_nothing_is_promoted(world, make_records, caplog):
    feed(world, make_records, 100)
    world.run()
    world.tell("promote")
    world.run()
    assert world.entries()[-1].commands == []
    assert "the command promote is rejected: there is no challenger to promote" in caplog.text


def test_a_command_makes_a_batch_of_its_own(world, make_records):
    feed(world, make_records, 30)
    world.run()
    n = len(world.entries())
    world.tell("retrain")
    world.run()
    (training,) = world.entries()[-1].trainings
    assert (len(world.entries()), training.kind) == (n + 1, "retrain")


def test_what_cannot_be_obeyed_is_refused_in_the_log_and_not_journalled(
    world, make_records, caplog
):
    feed(world, make_records, 30)
    world.run()
    world.tell("rollback", 999)
    world.commands.append([b"?", b'{"command": "dance"}', b'{"command": "rollback"}'])
    feed(world, make_records, 10, 30)
    world.run()
    assert world.entries()[-1].commands == []
    assert "rollback 999 is rejected: version 999 is not kept: there are 8, 18, 28" in caplog.text
    assert caplog.text.count("is rejected") == 4


def test_a_training_that_ends_while_nothing_comes_is_swapped_in_by_a_batch_of_nothing(
    make_world, make_records
):
    world = make_world(training="background", growth=100, extend_every=None, retrain_every=None)
    feed(world, make_records, 10)
    world.run()
    first, *_, last = world.entries()
    assert first.swap is None
    assert (last.read, last.swap, last.promoted) == ({"records": 0, "labels": 0}, 1, 1)
    assert world.pipeline.learner.trainer.running_training is None


def test_reading_a_batch_again_leaves_the_source_at_its_end(world):
    world.feed([{"id": str(i)} for i in range(20)])
    found = recovery.BatchInputs(0, {"records": {"0": (5, 8)}, "labels": {}}, [], [])
    again = world.loop.intake.reread_batch(found, {"records": 3, "labels": 0})
    assert [json.loads(m.payload)["id"] for m in again.records] == ["5", "6", "7"]
    assert world.loop.intake.positions()["records"] == {"0": 8}


@pytest.mark.slow
def test_trees_for_thousands_of_labels_extend_those_for_fewer_and_are_replayed(
    make_world, make_records
):
    """The first is of 2,990 labels; a restart later, its extension is of over 3,000."""
    options = {"first": 2_990, "growth": 9.0, "retrain_every": None, "extend_every": 20}
    world = make_world(rounds=150, batch=1_000, window=5_000, **options)
    feed(world, make_records, 2_999)
    world.run()
    before = world.pipeline.learner.committee
    arrays, manifest = world.loop.snapshot()
    checkpoint = arrays, manifest | {"environment": recovery.environment()}
    world.loop = replayed(world, checkpoint)
    feed(world, make_records, 30, 2_999)
    world.run()
    extended = world.pipeline.learner.committee
    assert [t.kind for entry in world.entries() for t in entry.trainings] == ["first", "extend"]
    old, new = before.learners, extended.learners
    n, roots = len(old.nodes), np.append(new.roots, len(new.nodes))
    assert (old.n_rounds, new.n_rounds) == (150, 160)
    np.testing.assert_array_equal(new.nodes[:n], old.nodes)
    np.testing.assert_array_equal(new.values[: len(old.values)], old.values)
    assert np.diff(roots[:151]).max() == 5
    assert np.diff(roots[150:]).max() == 15
    records, truth = make_records(500, seed=1)
    X = np.array([[record["a"], record["b"]] for record in records], dtype=np.float32)
    answers = [c.classes[c.class_scores(X).argmax(axis=1)] for c in (before, extended)]
    right, still_right = (np.mean(answer == np.array(truth)) for answer in answers)
    assert still_right >= right - 0.01
    assert_same_state(world.loop, replayed(world))
