"""Pipelined commits: the next batch is processed during the commit of the batch before."""

import threading
from collections import defaultdict

import msgspec
import pytest

from streamboost.connectors.memory import MemoryTransaction
from streamboost.errors import ConnectorError, UnavailableError
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.runner.replay import snapshot_digest
from streamboost.pipelines.state.journal import JournalExtras

PATIENCE = 30.0


def fed(world, make_records, n=45):
    records, truth = make_records(n)
    labels = [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]
    world.feed(records, labels)
    return records


class Slow(MemoryTransaction):
    """Commits a batch only once the next has been worked on, as far as there is one."""

    def __init__(self, last):
        super().__init__()
        self.stepped = defaultdict(threading.Event)
        self.last = last

    def commit(self, sequence, *what):
        if sequence < self.last and not self.stepped[sequence + 1].wait(PATIENCE):
            raise ConnectorError(f"batch {sequence + 1} is not worked on meanwhile")
        super().commit(sequence, *what)


class Failing(MemoryTransaction):
    """Fails to commit batch `sequence` with each of `errors` in turn."""

    def __init__(self, sequence, errors):
        super().__init__()
        self.at, self.errors = sequence, errors

    def commit(self, sequence, *what):
        if sequence == self.at and self.errors:
            raise self.errors.pop(0)
        super().commit(sequence, *what)


def test_the_next_batch_is_worked_on_while_one_is_committed(world, make_records):
    records = fed(world, make_records)
    transaction = world.transaction = Slow(last=5)
    loop = world.loop = world.fresh(pipelined_commits=True)
    step = loop.pipeline.step

    def stepping(inputs, swap):
        effects = step(inputs, swap)
        transaction.stepped[effects.sequence].set()
        return effects

    loop.pipeline.step = stepping
    world.run()
    assert [p["id"] for p in world.read("predictions")] == [r["id"] for r in records]
    assert transaction.last_committed_batch().sequence == 5
    assert loop.is_committed


def test_a_poll_waits_for_a_commit_once_all_was_read(world, make_records):
    world.feed(make_records(25)[0])
    loop = world.loop = world.fresh(pipelined_commits=True)
    poll, seen = loop.intake.poll, []

    def polling(**arguments):
        seen.append((loop.pipeline.sequence, loop.is_committed))
        return poll(**arguments)

    loop.intake.poll = polling
    world.run()
    assert seen == [(0, True), (1, False), (2, False), (3, True)]


@pytest.mark.slow
def test_what_is_committed_is_the_same_as_one_batch_after_the_other(make_world, make_records):
    worlds = make_world(), make_world()
    worlds[1].loop = worlds[1].fresh(pipelined_commits=True)
    for world in worlds:
        world.pipeline.journal_extras = JournalExtras(environment={"streamboost": "0"})
        fed(world, make_records, 200)
        world.run()
    steady, ahead = worlds
    assert steady.entries() == ahead.entries()
    assert [entry.environment for entry in ahead.entries()][1:] == [None] * 19
    for name in ("predictions", "requests", "dead"):
        assert steady.read(name) == ahead.read(name)
    assert steady.transaction.last_committed_batch() == ahead.transaction.last_committed_batch()
    assert snapshot_digest(*steady.loop.snapshot()) == snapshot_digest(*ahead.loop.snapshot())


def test_a_commit_that_fails_ends_the_run_before_what_was_worked_on_meanwhile(world, make_records):
    fed(world, make_records)
    world.transaction = Failing(2, [ConnectorError("the disk is full")])
    told = []
    world.loop = world.fresh(lambda effects: told.append(effects.sequence), pipelined_commits=True)
    with pytest.raises(ConnectorError, match="is full"):
        world.run()
    assert told == [1]
    assert world.transaction.last_committed_batch().sequence == 1
    assert len(world.read("predictions")) == 10
    assert not world.loop.is_committed


def test_a_commit_that_may_pass_is_tried_until_it_does_and_the_next_follows(world, make_records):
    records = fed(world, make_records)
    world.transaction = Failing(2, [UnavailableError("the broker is away")] * 3)
    told = []
    world.loop = world.fresh(lambda effects: told.append(effects.sequence), pipelined_commits=True)
    world.loop.poll_interval = 0.0
    world.run()
    assert told == [1, 2, 3, 4, 5]
    assert [p["id"] for p in world.read("predictions")] == [r["id"] for r in records]
    assert world.loop.is_committed


def test_a_stop_leaves_a_commit_that_waits_one_more_attempt(world, make_records):
    fed(world, make_records)
    world.transaction = Failing(2, [UnavailableError("the broker is away")] * 9)
    loop = world.loop = world.fresh(pipelined_commits=True)
    loop.stop.wait = lambda seconds: loop.stop.request_stop()
    with pytest.raises(UnavailableError):
        world.run()
    assert len(world.transaction.errors) == 7
    assert world.transaction.last_committed_batch().sequence == 1
    assert not loop.is_committed


def test_a_stop_is_orderly_with_the_batch_that_was_worked_on_meanwhile(world, make_records):
    fed(world, make_records)
    world.loop = world.fresh(lambda effects: world.loop.stop.request_stop(), pipelined_commits=True)
    world.run()
    assert world.loop.is_committed
    assert world.transaction.last_committed_batch().sequence == world.pipeline.sequence == 2


class Reading(Observer):
    """Notes the newest batch of the pipeline and of the transaction, and is always due."""

    is_work_due = True

    def __init__(self, world):
        self.world, self.seen = world, []

    def between_batches(self):
        committed = self.world.transaction.last_committed_batch()
        self.seen.append((self.world.pipeline.sequence, committed.sequence if committed else 0))


def test_who_is_due_sees_a_pipeline_all_of_which_is_committed(world, make_records):
    fed(world, make_records)
    world.loop = world.fresh(pipelined_commits=True)
    reading = Reading(world)
    world.loop.observers.append(reading)
    world.run()
    assert len(reading.seen) > 5
    assert all(done == committed for done, committed in reading.seen)


def test_a_checkpoint_is_of_what_is_committed(world, make_records):
    fed(world, make_records)
    loop = world.loop = world.fresh(pipelined_commits=True, checkpoint_every=2)
    seen = []

    def checkpoint():
        committed = world.transaction.last_committed_batch()
        seen.append((loop.pipeline.sequence, committed.sequence))
        assert loop.snapshot()[1]["positions"] == committed.positions

    loop.save_checkpoint = checkpoint
    world.run()
    assert seen == [(2, 2), (4, 4)]


def test_the_newest_labels_answer_what_has_just_been_asked_when_all_was_read(world, make_records):
    """What comes of a commit is looked for before a run until nothing is left ends."""
    records, _ = make_records(20)
    world.feed(records)
    asked = []

    def answer(effects):
        asked.extend(effects.asked.ids)
        world.feed(labels=[{"id": id, "label": "left"} for id in effects.asked.ids])

    world.loop = world.fresh(answer, pipelined_commits=True)
    world.run()
    assert world.pipeline.join.counts.answered == len(asked) > 0
    assert msgspec.json.decode(world.labels.payloads()[-1])["id"] == asked[-1]
