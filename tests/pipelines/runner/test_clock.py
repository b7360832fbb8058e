"""Clock jumps of a day, forwards and back, while a pipeline runs and between two runs."""

import json
from types import SimpleNamespace

import pytest

from streamboost.connectors.memory import MemoryLog, MemorySource
from streamboost.pipelines.runner.batch_reader import BatchReader
from streamboost.pipelines.runner.replay import recover, snapshot_digest

DAY = 24 * 3_600_000


@pytest.fixture
def intake(world):
    """An intake of one record a batch, whose clock and timer are set by hand."""
    time = SimpleNamespace(clock=5_000, timer=0.0)
    intake = BatchReader(
        MemorySource(world.records),
        MemorySource(MemoryLog()),
        most_records=1,
        most_labels=1,
        clock=lambda: time.clock,
        timer=lambda: time.timer,
    )
    world.feed([{"id": str(i)} for i in range(9)])

    def tick(clock, timer):
        time.clock, time.timer = clock, timer
        return intake.poll().batch_time_ms

    return tick


def test_the_tick_never_goes_back(intake):
    assert [intake(clock, 0.0) for clock in (5_000, 4_000, 6_000)] == [5_000, 5_000, 6_000]


def test_a_clock_set_back_is_caught_up_with_at_half_the_speed(intake):
    assert intake(DAY, 0.0) == DAY
    assert intake(0, 0.0) == DAY
    assert intake(10_000, 10.0) == DAY + 5_000
    assert intake(20_000, 20.0) == DAY + 10_000
    assert intake(2 * DAY, 2 * DAY / 1_000) == 2 * DAY
    assert intake(2 * DAY + 10_000, 2 * DAY / 1_000 + 10.0) == 2 * DAY + 10_000


@pytest.fixture
def clocked(make_world):
    """A pipeline whose requests wait an hour, and a function that lets it take records in."""
    world = make_world(expires_after="1h", window="1h", budget=0.5)
    world.ticks = iter(())
    at = SimpleNamespace(start=0)

    def take(make_records, tick, n=20, labels=()):
        world.loop.intake._clock = lambda: tick
        world.feed(make_records(n, at.start)[0], labels)
        at.start += n
        world.run()
        return world.pipeline.learner.ledger

    world.take = take
    return world


def test_a_day_forward_expires_what_was_open_and_nothing_that_comes_after(clocked, make_records):
    asked = clocked.take(make_records, tick=0).requests
    assert asked > 5
    ledger = clocked.take(make_records, tick=DAY)
    assert ledger.expired == asked
    open_ids = [r["id"] for r in clocked.read("requests") if int(r["id"]) >= 20]
    answers = [{"id": id_, "label": "left"} for id_ in open_ids]
    assert clocked.take(make_records, tick=DAY + 1_000, labels=answers).answered == len(open_ids)


def test_a_day_back_expires_nothing_early_and_brings_nothing_back(clocked, make_records):
    clocked.take(make_records, tick=DAY)
    ledger = clocked.take(make_records, tick=0)
    assert ledger.expired == 0
    ticks = [entry.tick for entry in clocked.entries()]
    assert ticks == sorted(ticks)
    assert DAY <= ticks[-1] < DAY + 60_000
    assert all(r["expires"] < DAY + 3_660_000 for r in clocked.read("requests"))
    asked = ledger.requests
    assert clocked.take(make_records, tick=DAY + 7_200_000).expired == asked


@pytest.mark.parametrize("tick", [0, DAY, 2 * DAY])
def test_a_clock_that_is_off_at_a_restart_changes_no_bit_of_the_replay(clocked, make_records, tick):
    for before in (DAY, 3 * DAY // 2):
        clocked.take(make_records, before)
    again = clocked.fresh()
    again.intake._clock = lambda: tick
    recover(again, None, clocked.transaction.last_committed_batch().sequence)
    assert snapshot_digest(*again.snapshot()) == snapshot_digest(*clocked.pipeline.snapshot())
    clocked.feed(make_records(5, start=1_000)[0])
    again.run(until_idle=True)
    last = clocked.entries()[-1].tick
    assert max(tick, 3 * DAY // 2) <= last < max(tick, 3 * DAY // 2) + 60_000
    assert json.loads(clocked.predictions.payloads()[-1])["id"] == "1004"
