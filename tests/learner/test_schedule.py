import pytest

from streamboost.errors import ConfigurationError
from streamboost.learner.schedule import Schedule, TrainingProgress


def trainings(schedule, labels, rounds=100):
    """The (label, kind) of every training of a stream where two classes are there at once."""
    done, progress, grown = [], None, 0
    for n in range(1, labels + 1):
        kind = schedule.due_training(labels=n, progress=progress, rounds=grown)
        if kind is None:
            continue
        done.append((n, kind))
        grown = grown + schedule.extend_estimators if kind == "extend" else rounds
        progress = TrainingProgress(progress.retrained if kind == "extend" else n, n)
    return done


def plain(**settings):
    return Schedule(**{"extend_every": None, "retrain_every": None, **settings})


@pytest.mark.parametrize(
    "wrong",
    [
        {"first": 1},
        {"growth": 1.0},
        {"growth": float("nan")},
        {"growth": "fast"},
        {"growth": 10**400},
        {"retrain_every": 0},
        {"extend_every": 0},
        {"extend_estimators": 0},
        {"extend_estimators": True},
        {"max_estimators": 0},
        {"n_evaluation_labels": 0},
        {"retrain_seconds": 0},
        {"extend_seconds": float("inf")},
        {"extend_seconds": "1m"},
        {"on_drift": "ddm"},
        {"drift_signal": "loss"},
        {"correction_rounds": -1},
        {"correction_rows": 0},
        {"correction_half_life": 0},
        {"correction_half_life": float("inf")},
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ConfigurationError, match=f"schedule {name}"):
        Schedule(**wrong)


def test_the_first_training_waits_for_its_labels():
    assert trainings(plain(first=5, growth=2), 10)[:2] == [(5, "first"), (10, "retrain")]


def test_retraining_follows_geometric_growth():
    times = [n for n, _ in trainings(plain(growth=1.5), 40)]
    assert times == [2, 3, 4, 6, 9, 13, 19, 28]


def test_young_committees_are_retrained_at_every_label():
    assert [n for n, _ in trainings(plain(growth=1.05), 40)] == list(range(2, 41))


def test_growth_is_the_decimal_it_is_written_as():
    assert (
        plain(growth=1.15).due_training(labels=115, progress=TrainingProgress(100, 100), rounds=1)
        == "retrain"
    )
    assert (
        plain(growth=1.15).due_training(labels=114, progress=TrainingProgress(100, 100), rounds=1)
        is None
    )


@pytest.mark.parametrize(
    "schedule",
    [
        plain(growth=1.2),
        plain(growth=1.05, retrain_every=40),
        plain(growth=1.5, extend_every=7),
        plain(growth=1.5, extend_every=7, max_estimators=30),
    ],
)
@pytest.mark.parametrize(
    ("retrained", "trained", "origin"), [(30, 30, 0), (900, 905, 0), (60, 75, 50)]
)
def test_a_schedule_rests_until_the_first_label_that_may_make_a_training_due(
    schedule, retrained, trained, origin
):
    progress = TrainingProgress(retrained, trained)
    until = schedule.min_labels_for_training(progress, origin)
    told = {"progress": progress, "rounds": 10, "origin": origin}
    assert not any(schedule.due_training(labels=n, **told) for n in range(trained, until))
    assert schedule.due_training(labels=until, **told) or until - origin >= 100


@pytest.mark.parametrize(
    ("labels", "origin", "settings"),
    [
        (100, 0, {}),
        (5_000, 0, {}),
        (5_000, 4_000, {}),
        (30_000, 0, {}),
        (300, 0, {"extend_every": None, "growth": 1.5}),
    ],
)
def test_labels_of_the_next_training_are_the_first_at_which_a_training_is_due(
    labels, origin, settings
):
    schedule = Schedule(**settings)
    progress = TrainingProgress(labels - labels // 50, labels)
    due = schedule.labels_of_next_training(progress, origin)
    kinds = [
        schedule.due_training(labels=n, progress=progress, rounds=100, origin=origin)
        for n in (due - 1, due)
    ]
    assert kinds[0] is None
    assert kinds[1] is not None
    assert Schedule(first=20).labels_of_next_training(None, 0) == 20


def test_a_schedule_in_seconds_never_rests():
    assert (
        plain(growth=2, extend_seconds=5).min_labels_for_training(TrainingProgress(100, 100), 0)
        == 0
    )


@pytest.mark.parametrize("growth", [1e308, 10**308])
def test_a_growth_beyond_all_labels_never_asks_for_a_retraining(growth):
    progress = TrainingProgress(retrained=50, trained=50)
    assert plain(growth=growth).due_training(labels=10**6, progress=progress, rounds=1) is None


def test_retrain_every_bounds_what_growth_asks():
    times = [n for n, _ in trainings(plain(growth=2, retrain_every=10), 50)]
    assert times == [2, 4, 8, 16, 26, 36, 46]


@pytest.mark.parametrize(
    ("labels", "origin", "wanted"),
    [
        (19_999, 0, 500),
        (30_000, 0, 750),
        (40_000, 0, 1000),
        (10**7, 0, 1000),
        (40_000, 20_000, 500),
    ],
)
def test_of_tens_of_thousands_of_labels_it_takes_up_to_twice_as_many(labels, origin, wanted):
    schedule, progress = plain(growth=2, retrain_every=500), TrainingProgress(labels, labels)
    before, then = (
        schedule.due_training(labels=labels + more, progress=progress, rounds=1, origin=origin)
        for more in (wanted - 1, wanted)
    )
    assert (before, then) == (None, "retrain")


def test_extensions_fill_the_time_between_retrainings():
    assert trainings(plain(growth=2, extend_every=3), 16) == [
        (2, "first"),
        (4, "retrain"),
        (7, "extend"),
        (8, "retrain"),
        (11, "extend"),
        (14, "extend"),
        (16, "retrain"),
    ]


def test_where_both_are_due_retraining_wins():
    schedule = plain(growth=2, extend_every=5)
    assert (
        schedule.due_training(labels=10, progress=TrainingProgress(5, 5), rounds=100) == "retrain"
    )


def test_a_committee_that_would_grow_too_large_is_retrained():
    schedule = plain(growth=100, extend_every=1, extend_estimators=10, max_estimators=120)
    kinds = [kind for _, kind in trainings(schedule, 8)]
    assert kinds == ["first", "extend", "extend", "retrain", "extend", "extend", "retrain"]


def timed(schedule, ticks):
    """The (place, kind) of every training where one label comes at each tick."""
    done, progress = [], TrainingProgress(1, 1, ticks[0], ticks[0])
    for n, tick in enumerate(ticks[1:], start=2):
        kind = schedule.due_training(labels=n, progress=progress, rounds=1, tick=tick)
        if kind is not None:
            done.append((n, kind))
            extends = kind == "extend"
            progress = TrainingProgress(
                progress.retrained if extends else n,
                n,
                progress.retrained_tick if extends else tick,
                tick,
            )
    return done


def test_seconds_are_counted_from_the_last_training_and_looked_at_with_each_label():
    schedule = plain(growth=1e9, extend_seconds=2, retrain_seconds=5)
    assert timed(schedule, [0, 1000, 1999, 2000, 3500, 4100, 4999, 5000, 7500]) == [
        (4, "extend"),
        (6, "extend"),
        (8, "retrain"),
        (9, "extend"),
    ]


def test_what_is_due_first_by_labels_or_by_seconds_counts():
    schedule = plain(growth=1e9, extend_every=2, extend_seconds=10)
    assert timed(schedule, [0, 1, 2, 20_000, 20_001, 20_002]) == [
        (3, "extend"),
        (4, "extend"),
        (6, "extend"),
    ]


def test_a_long_silence_makes_one_training_due_not_many():
    schedule = plain(growth=1e9, retrain_seconds=1)
    assert timed(schedule, [0, 10**9, 10**9 + 1, 10**9 + 2]) == [(2, "retrain")]


def test_growth_counts_from_the_last_drift():
    schedule = plain(growth=1.5)
    progress = TrainingProgress(retrained=1020, trained=1020)
    assert schedule.due_training(labels=1029, progress=progress, rounds=1, origin=1000) is None
    assert schedule.due_training(labels=1030, progress=progress, rounds=1, origin=1000) == "retrain"
