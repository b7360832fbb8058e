import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.query.pool import Pool


def filled(utilities, size=6):
    pool = Pool(size)
    pool.set_n_features(1)
    for i, utility in enumerate(utilities):
        pool.admit(f"r{i}", np.array([utility], dtype=np.float32), utility)
    return pool


def ids(chosen):
    return [one.id for one in chosen]


def choose(pool, n, seed=0, *, at_random=False):
    return pool.select_best(n, np.random.default_rng(seed), at_random=at_random)


def test_the_best_are_chosen_with_certainty_and_only_once():
    pool = filled([0.1, 0.9, 0.3, 0.8])
    first = choose(pool, 2)
    assert ids(first) == ["r1", "r3"]
    assert [one.propensity for one in first] == [1.0, 1.0]
    assert ids(choose(pool, 2)) == ["r0", "r2"]
    assert choose(pool, 2) == []


def test_records_that_are_known_are_not_chosen():
    pool = filled([0.1, 0.9, 0.3])
    pool.exclude(["r1", "gone before"])
    assert ids(choose(pool, 1)) == ["r2"]


def test_a_record_leaves_when_the_pool_is_full_unless_it_was_taken():
    pool = filled([0.1, 0.9], size=2)
    left = pool.admit("r2", np.zeros(1, dtype=np.float32), 0.5)
    assert (left.id, left.utility) == ("r0", 0.1)
    choose(pool, 1)
    assert pool.admit("r3", np.zeros(1, dtype=np.float32), 0.4) is None
    assert ids(choose(pool, 9)) == ["r2", "r3"]


def test_an_id_that_comes_again_stands_for_the_newer_record():
    pool = Pool(3)
    pool.set_n_features(1)
    row = np.zeros(1, dtype=np.float32)
    for id, utility in [("a", 0.1), ("b", 0.2), ("a", 0.3), ("c", 0.4)]:
        pool.admit(id, row, utility)
    pool.exclude(["a"])
    assert ids(choose(pool, 3)) == ["b", "c"]


def test_a_new_version_rates_the_pool_again():
    pool = filled([1.0, 2.0, 3.0])
    pool.rescore(1, lambda X: -X[:, 0].astype(float))
    assert ids(choose(pool, 1)) == ["r0"]


@pytest.mark.slow
def test_of_records_that_tie_each_is_drawn_as_often_as_its_propensity_says():
    """Two of these six places are certain, and three tie for the one that is left."""
    counts, propensity = dict.fromkeys([f"r{i}" for i in range(6)], 0), {}
    pool = filled([0.5, 0.9, 0.5, 0.1, 0.5, 0.8])
    version, arrays = pool.state()
    generator = np.random.default_rng(5)
    for _ in range(10_000):
        pool.resume(version, arrays)
        for one in pool.select_best(3, generator, at_random=False):
            counts[one.id] += 1
            propensity[one.id] = one.propensity
    assert propensity == {"r0": 1 / 3, "r1": 1.0, "r2": 1 / 3, "r4": 1 / 3, "r5": 1.0}
    for id, p in propensity.items():
        assert abs(counts[id] / 10_000 - p) <= 4 * np.sqrt(p * (1 - p) / 10_000)


@pytest.mark.slow
def test_at_random_each_record_is_drawn_as_often_as_its_propensity_says():
    pool = filled([0.5, 0.9, 0.7, 0.1, 0.2, 0.8])
    version, arrays = pool.state()
    generator = np.random.default_rng(6)
    counts = np.zeros(6)
    for _ in range(10_000):
        pool.resume(version, arrays)
        for one in pool.select_best(2, generator, at_random=True):
            assert one.propensity == 1 / 3
            counts[int(one.id[1:])] += 1
    assert np.abs(counts / 10_000 - 1 / 3).max() < 4 * np.sqrt(2 / 9 / 10_000)


@given(st.lists(st.floats(0, 1), max_size=20), st.lists(st.floats(0, 1), max_size=20))
def test_a_resumed_pool_goes_on_as_if_never_stopped(before, after):
    pool = filled(before)
    choose(pool, 2)
    resumed = Pool(6)
    resumed.resume(*pool.state())
    resumed.set_ids(pool.ids())
    for i, utility in enumerate(after):
        row = np.array([utility], dtype=np.float32)
        assert pool.admit(f"s{i}", row, utility) == resumed.admit(f"s{i}", row, utility)
    pool.exclude(["s1"])
    resumed.exclude(["s1"])
    assert choose(pool, 4, seed=3) == choose(resumed, 4, seed=3)
