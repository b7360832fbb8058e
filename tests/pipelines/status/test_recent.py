"""Recent batches, summarized when a client reads the status."""

import numpy as np
import pytest

from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.status.recent import RECENT_RECORDS, IntervalCollector


class Kept(Observer):
    """Keeps what each batch did."""

    def __init__(self):
        self.effects = []

    def on_commit(self, effects):
        self.effects.append(effects)


@pytest.fixture
def effects(grown):
    """What some batches of a pipeline did."""
    world, _ = grown
    kept = Kept()
    world.loop.observers.append(kept)
    world.run()
    assert len(kept.effects) > 2
    return kept.effects


def test_it_does_not_matter_when_the_newest_are_looked_at(effects):
    often, seldom = IntervalCollector([0, 1]), IntervalCollector([0, 1])
    for time in range(60):
        for one in effects:
            often(one, time)
            often.recent_records()
            seldom(one, time)
    parts, whole = often.recent_records(), seldom.recent_records()
    assert parts.class_shares() == whole.class_shares()
    assert parts.confusion_matrix() == whole.confusion_matrix()
    assert len(whole.predicted) == RECENT_RECORDS
    # What none of the newest looks at is left out: the rows' order differs.
    assert sorted(parts.rows.tolist()) == sorted(whole.rows.tolist())
    assert np.array_equal(parts.reference_rows, whole.reference_rows)
    assert often.drain_interval_stats() == seldom.drain_interval_stats()


def test_what_nobody_looks_at_is_bounded(effects):
    notes = IntervalCollector([0, 1])
    for time in range(60):
        for one in effects:
            notes(one, time)
    most = max(len(one.records) for one in effects)
    assert sum(len(labels) for labels, _, _ in notes._late) < RECENT_RECORDS + most
    assert notes.since.records == 60 * sum(len(one.records) for one in effects)
