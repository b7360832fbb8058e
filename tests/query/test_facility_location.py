"""Requests by facility location, for records with vectors before there are useful utilities."""

from fractions import Fraction

import numpy as np
import pytest

from streamboost.query.config import QueryConfig
from streamboost.query.facility_location import FacilityLocationRanker
from streamboost.query.querier import Querier

RNG = np.random.default_rng(0)


def ranked(ranker, vectors, n_strata=0):
    return np.array([ranker.rank(np.array(v, dtype=np.float32), n_strata)[0] for v in vectors])


def test_typical_record_ranks_above_an_odd_one_until_it_is_requested():
    ranker = FacilityLocationRanker()
    ranked(ranker, [(1, 0, 0)] * 6 + [(0, 1, 0)] * 3)
    # The gains are the shares of the records with the same vector: 7/10, 4/11 and 1/12.
    usual, second, odd = ranked(ranker, [(2, 0, 0), (0, 5, 0), (0, 0, 1)])
    np.testing.assert_allclose([usual, second, odd], [(0, 0.7), (7 / 11, 1), (11 / 12, 1)])
    ranker.add_request(np.array([1.0, 0.0, 0.0]), stratum=4)
    usual, second = ranked(ranker, [(1, 0, 0), (0, 1, 0)], n_strata=4)
    assert usual[0] < second[0], "a request counts when its stratum is complete"
    usual, second = ranked(ranker, [(1, 0, 0), (0, 1, 0)], n_strata=5)
    np.testing.assert_allclose([usual, second], [(6 / 15, 1), (0, 6 / 16)])


def test_rank_is_by_the_gain_of_the_facility_location_function():
    ranker, requested = FacilityLocationRanker(), []
    vectors = RNG.normal(size=(300, 4))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for i, x in enumerate(vectors):
        (low, high), recent = ranker.rank(x, n_strata=i)[0], vectors[max(i - 255, 0) : i + 1]
        covered = np.max([recent @ one for one in requested], axis=0, initial=0.0)
        gains = np.maximum(recent @ recent.T - covered, 0.0).mean(axis=1)
        above = np.mean(gains > gains[-1] + 1e-5), np.mean(gains > gains[-1] - 1e-5)
        assert above[0] - 1e-9 <= low < high <= above[1] + 1e-9
        if i % 50 == 2:
            requested.append(x)
            ranker.add_request(x, stratum=i)


@pytest.mark.parametrize("n", [30, 300])
def test_resumed_ranker_continues_with_the_same_bits(n):
    vectors = RNG.normal(size=(n + 50, 5)).astype(np.float32)
    vectors[::7, 2] = np.nan
    vectors[::11] = 0.0
    ranker, resumed = FacilityLocationRanker(), FacilityLocationRanker()
    for i, x in enumerate(vectors[:n]):
        ranker.rank(x, i // 10)
        if i % 10 == 3:
            ranker.add_request(x, i // 10)
    resumed.resume(ranker.state())
    ranker.add_request(vectors[n], n // 10)
    resumed.add_request(vectors[n], n // 10)
    for i, x in enumerate(vectors[n:], n):
        np.testing.assert_array_equal(ranker.rank(x, i // 10), resumed.rank(x, i // 10))


def querier(budget=0.1, **settings):
    return Querier(QueryConfig(budget=budget, **settings), np.random.SeedSequence(3))


def select(asking, vectors, start=0, step=1_000):
    """Return the requested indices, and the inclusion probability of every record."""
    asking.set_n_features(vectors.shape[1])
    requested, probabilities = [], []
    for begin in range(0, len(vectors), step):
        some = vectors[begin : begin + step]
        ids = [str(begin + i) for i in range(len(some))]
        found = asking.select_requests(ids, some, np.ones(len(some)), at_random=True, vectors=some)
        requested += map(int, found.ids)
        probabilities.append(found.inclusion_probabilities)
    return requested, np.concatenate(probabilities)


def clustered(n, seed=0, n_clusters=30):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(n_clusters, 16))
    places = rng.integers(n_clusters, size=n)
    return (centers[places] + 0.1 * rng.normal(size=(n, 16))).astype(np.float32), places


def test_first_requests_are_in_more_clusters_than_random_ones():
    covered, at_random = [], []
    for seed in range(20):
        vectors, places = clustered(400, seed)
        requested, _ = select(querier(), vectors)
        covered.append(len(set(places[requested])))
        rng = np.random.default_rng(seed)
        at_random.append(len(set(places[rng.choice(400, len(requested), replace=False)])))
    assert np.mean(covered) > np.mean(at_random) + 2


def test_requests_do_not_depend_on_batches_and_stay_within_the_budget():
    vectors, _ = clustered(600)
    at_once, probabilities = select(querier(), vectors)
    in_batches, others = select(querier(), vectors, step=7)
    assert at_once == in_batches
    np.testing.assert_array_equal(probabilities, others)
    budget = QueryConfig(budget=0.1).budget_share
    for n in range(1, len(vectors) + 1):
        assert sum(i < n for i in at_once) <= budget * n + Fraction(1)


def test_records_are_requested_with_their_inclusion_probabilities():
    vectors, _ = clustered(120)
    counts, sums = np.zeros(120), np.zeros(120)
    for seed in range(300):
        asking = Querier(QueryConfig(budget=0.2), np.random.SeedSequence(seed))
        requested, probabilities = select(asking, vectors)
        counts[requested] += 1
        sums += probabilities
    # The Horvitz-Thompson estimate of a share is unbiased, whichever records are requested.
    expected, error = sums / 300, np.sqrt(sums) / 300
    assert (np.abs(counts / 300 - expected) < 4.5 * error + 0.01).all()
    assert expected.max() > 2 * expected.min()
