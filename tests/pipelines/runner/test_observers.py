"""Stage times of a batch and their quantiles."""

from streamboost.pipelines.runner.observers import BATCHES, StageTimer


def test_each_part_has_the_time_since_the_part_before():
    now = [0.0]
    stage_timer = StageTimer(clock=lambda: now[0])
    for slow in range(101):
        now[0] += 5.0  # at rest
        stage_timer.begin_batch()
        now[0] += 0.25
        stage_timer.on_stage_end("score")
        now[0] += 10.0 if slow >= 99 else 1.0
        stage_timer.on_stage_end("learn")
    assert stage_timer.quantiles() == {
        "score": {"median": 0.25, "p99": 0.25},
        "learn": {"median": 1.0, "p99": 10.0},
    }


def test_only_the_newest_batches_count():
    now = [0.0]
    stage_timer = StageTimer(clock=lambda: now[0])
    for i in range(2 * BATCHES):
        stage_timer.begin_batch()
        now[0] += 1.0 if i < BATCHES else 2.0
        stage_timer.on_stage_end("poll")
    assert stage_timer.quantiles() == {"poll": {"median": 2.0, "p99": 2.0}}
