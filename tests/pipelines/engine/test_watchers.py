"""Laps and their quantiles."""

from streamboost.pipelines.engine.watchers import BATCHES, Stopwatch


def test_each_part_has_the_time_since_the_part_before():
    now = [0.0]
    stopwatch = Stopwatch(clock=lambda: now[0])
    for slow in range(101):
        now[0] += 5.0  # at rest
        stopwatch.begin()
        now[0] += 0.25
        stopwatch.lap("score")
        now[0] += 10.0 if slow >= 99 else 1.0
        stopwatch.lap("learn")
    assert stopwatch.in_numbers() == {
        "score": {"median": 0.25, "p99": 0.25},
        "learn": {"median": 1.0, "p99": 10.0},
    }


def test_only_the_newest_batches_count():
    now = [0.0]
    stopwatch = Stopwatch(clock=lambda: now[0])
    for i in range(2 * BATCHES):
        stopwatch.begin()
        now[0] += 1.0 if i < BATCHES else 2.0
        stopwatch.lap("poll")
    assert stopwatch.in_numbers() == {"poll": {"median": 2.0, "p99": 2.0}}
