import pytest

from streamboost.errors import ConfigurationError
from streamboost.stream.schedule import Progress, Schedule


def trainings(schedule, labels, rounds=100):
    """The (label, kind) of every training of a stream where two classes are there at once."""
    done, progress, grown = [], None, 0
    for n in range(1, labels + 1):
        kind = schedule.due(labels=n, progress=progress, rounds=grown)
        if kind is None:
            continue
        done.append((n, kind))
        grown = grown + schedule.extend_estimators if kind == "extend" else rounds
        progress = Progress(progress.retrained if kind == "extend" else n, n)
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
    assert plain(growth=1.15).due(labels=115, progress=Progress(100, 100), rounds=1) == "retrain"
    assert plain(growth=1.15).due(labels=114, progress=Progress(100, 100), rounds=1) is None


@pytest.mark.parametrize("growth", [1e308, 10**308])
def test_a_growth_beyond_all_labels_never_asks_for_a_retraining(growth):
    progress = Progress(retrained=50, trained=50)
    assert plain(growth=growth).due(labels=10**6, progress=progress, rounds=1) is None


def test_retrain_every_bounds_what_growth_asks():
    times = [n for n, _ in trainings(plain(growth=2, retrain_every=10), 50)]
    assert times == [2, 4, 8, 16, 26, 36, 46]


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
    assert schedule.due(labels=10, progress=Progress(5, 5), rounds=100) == "retrain"


def test_a_committee_that_would_grow_too_large_is_retrained():
    schedule = plain(growth=100, extend_every=1, extend_estimators=10, max_estimators=120)
    kinds = [kind for _, kind in trainings(schedule, 8)]
    assert kinds == ["first", "extend", "extend", "retrain", "extend", "extend", "retrain"]
