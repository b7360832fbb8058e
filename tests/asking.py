"""Helpers for tests of query strategies, on records whose one feature is their utility."""

import numpy as np

from streamboost.query.config import QueryConfig
from streamboost.query.querier import Querier


def querier(seed=0, **settings):
    one = Querier(QueryConfig(**settings), np.random.SeedSequence(seed))
    one.set_n_features(1)
    return one


def decide(one, utility, *, start=0, at_random=False):
    X = np.asarray(utility, dtype=np.float32)[:, None]
    ids = [str(start + i) for i in range(len(X))]
    return one.select_requests(ids, X, np.asarray(utility, dtype=float), at_random=at_random)


def stream(n, seed=5):
    return np.random.default_rng(seed).random(n)


def equal(first, second):
    assert first.ids == second.ids
    for name in ("utility", "propensity", "audit", "selected"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def pool(seed=0, **settings):
    chosen = {"mode": "pool", "window": 40, "query_batch_size": 4, "budget": 0.1, "audit": 0.0}
    return querier(seed, **(chosen | settings))
