import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.kernels.neighbours import write_neighbour_predictions
from tests import naive_neighbours

SIZE, K = 12, 4
WEIGHTS = 1.0, 0.25, 7.0


def random_ring(seed, n_rows, newest, *, values=4, trees=3, columns=4, size=SIZE, weights=WEIGHTS):
    """Return what the kernel takes: few values, so that many rows are equally near."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, values, (size, columns)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.15] = np.nan
    y, weight = rng.integers(0, K, size), rng.choice(weights, size)
    leaves = rng.integers(0, 3, (size, trees)).astype(np.uint8)
    X = rng.integers(0, values, (6, columns)).astype(np.float32)
    X[rng.random(X.shape) < 0.15] = np.nan
    own = rng.integers(0, 3, (6, trees)).astype(np.uint8)
    chosen = np.sort(rng.permutation(columns)[: rng.integers(1, columns + 1)])
    root = rng.choice([0.0, 0.5, 2.0], len(chosen))  # 0: a category
    rate = rng.choice([0.0, 0.25, 1.0], columns)
    apart = rng.choice([0.5, 1.0], len(chosen)).astype(np.float32)
    return (rows, y, weight, leaves, n_rows, newest), (X, own, chosen, root, apart, rate)


def say(ring, rest, n_near=200):
    said = np.full((3, len(rest[0]), K), np.nan)
    rows, y, weight, leaves, n_rows, newest = ring
    by_column = rows.T.copy(), y, weight, leaves.T.copy()
    write_neighbour_predictions(*by_column, n_rows, newest, n_near, *rest, said)
    return said


def say_slowly(ring, rest, n_near=200):
    *held, n_rows, newest = ring
    order = (newest - np.arange(n_rows)) % len(held[1])
    X, own, chosen, root, apart, rate = rest
    scale = (root * rate[chosen]).astype(np.float32)
    held = [one[order] for one in held]
    counts = np.bincount(held[1], weights=held[2], minlength=K)
    return naive_neighbours.say_neighbours(*held, n_near, X, own, chosen, scale, apart, counts)


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(1, SIZE),
    newest=st.integers(0, SIZE - 1),
    n_near=st.integers(1, 15),
    trees=st.integers(0, 4),
)
@pytest.mark.slow
def test_neighbours_say_what_those_of_the_slow_twin_say(seed, n_rows, newest, n_near, trees):
    ring, rest = random_ring(seed, n_rows, newest, trees=trees)
    found, wanted = say(ring, rest, n_near), say_slowly(ring, rest, n_near)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    spoken = found if trees else found[:1]
    np.testing.assert_allclose(np.exp(spoken).sum(axis=2), 1)


@pytest.mark.parametrize("weights", [WEIGHTS, [1.0]], ids=["weighed", "all alike"])
@pytest.mark.parametrize(("n_rows", "newest"), [(200, 199), (200, 70), (130, 129), (130, 20)])
def test_of_many_rows_those_that_are_passed_over_are_none_of_the_nearest(n_rows, newest, weights):
    ring, rest = random_ring(n_rows, n_rows, newest, trees=7, size=200, weights=weights)
    np.testing.assert_allclose(say(ring, rest, 90), say_slowly(ring, rest, 90), rtol=1e-12)


def test_of_numbers_none_of_which_are_alike_the_nearest_is_the_slow_twins():
    ring, rest = random_ring(3, SIZE, 5, values=10**6)
    np.testing.assert_allclose(say(ring, rest), say_slowly(ring, rest), rtol=1e-12)


@pytest.mark.parametrize("newest", [0, 3, SIZE - 1])
def test_of_rows_equally_near_the_newest_counts_also_across_the_rings_end(newest):
    ring, rest = random_ring(0, SIZE, newest)
    rows, y, weight, leaves, *_ = ring
    rows[:], leaves[:], weight[:] = 1.0, 1, 1.0
    y[:] = 0
    y[newest] = 2
    X, own, *_ = rest
    X[:], own[:] = 1.0, 1
    said = say(ring, rest)
    assert (said[:2].argmax(axis=2) == 2).all()
    assert (said[2].argmax(axis=1) == 0).all()


def test_one_row_speaks_alone_and_no_more_than_there_are_vote():
    ring, rest = random_ring(1, 1, 4)
    y = ring[1][4]
    for said in say(ring, rest):
        assert (said.argmax(axis=1) == y).all()


def test_rows_that_are_not_there_have_no_voice():
    ring, rest = random_ring(2, 3, 1)  # at places 11, 0 and 1
    first = say(ring, rest)
    for one in ring[:4]:
        one[2:11] = 1
    np.testing.assert_array_equal(say(ring, rest), first)


def test_a_heavy_row_is_surer_of_its_label():
    ring, rest = random_ring(4, 1, 0)
    ring[2][:] = 1.0
    light = say(ring, rest)
    ring[2][:] = 10.0
    assert (say(ring, rest).max(axis=2) > light.max(axis=2)).all()


def test_numbers_as_large_as_can_be_make_no_nonsense():
    ring, rest = random_ring(5, SIZE, 0)
    most = np.finfo(np.float32).max
    ring[0][::2], ring[0][1::2] = most, -most
    rest[0][:3], rest[0][3:] = most, -most
    said = say(ring, rest)
    assert np.isfinite(said).all()
    np.testing.assert_allclose(np.exp(said).sum(axis=2), 1)
