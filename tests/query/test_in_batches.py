"""Decisions on a batch of records equal the decisions on each record separately."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.query.config import QueryConfig
from streamboost.query.querier import Querier
from streamboost.query.selection import SELECTIONS
from tests.query.naive_querier import NaiveQuerier


@st.composite
def strategies(draw):
    """Any strategy of stream mode."""
    kept = {
        "budget": draw(st.sampled_from([1e-300, 0.003, 0.01, 0.05, 0.07, 1 / 3, 0.9, 1])),
        "audit": draw(st.sampled_from([0.0, 1e-300, 0.1, 1 / 7, 1.0])),
        "strategy": draw(st.sampled_from(["margin", "margin", "random"])),
        "selection": draw(st.sampled_from([one for one in SELECTIONS if one != "probability"])),
        "burst": draw(st.integers(4, 25)),
        "window": draw(st.sampled_from([1, 7, 60, 2**17])),
    }
    if draw(st.booleans()) and kept["budget"] > 0.001:
        initial_credit = draw(st.integers(1, kept["burst"] - 1))
        least = int(3 * initial_credit / QueryConfig(budget=kept["budget"]).budget_share) + 1
        kept |= {
            "initial_credit": initial_credit,
            "stream_length": least + draw(st.integers(0, 99)),
        }
    return QueryConfig(**kept)


UTILITIES = {
    "spread": lambda rng, n: rng.random(n),
    "few, many tie": lambda rng, n: rng.integers(0, 4, n) / 3,
    "all alike": lambda rng, n: np.full(n, 0.5),
    "rising": lambda rng, n: np.arange(n) / n,
    "falling": lambda rng, n: -np.arange(n) / n,
    "some unknown": lambda rng, n: np.where(rng.random(n) < 0.1, np.nan, rng.random(n)),
}
PARTS = st.lists(st.tuples(st.integers(0, 400), st.booleans()), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(strategies(), st.integers(0, 99), st.sampled_from(sorted(UTILITIES)), PARTS)
@pytest.mark.slow
def test_batches_are_answered_as_their_records_one_by_one(strategy, seed, kind, parts):
    one = Querier(strategy, np.random.SeedSequence(seed))
    one.set_n_features(1)
    naive = NaiveQuerier(strategy, np.random.SeedSequence(seed))
    ends = np.cumsum([0, *(size for size, _ in parts)]).tolist()
    utility = UTILITIES[kind](np.random.default_rng(seed), ends[-1])
    X = utility.astype(np.float32)[:, None]
    for (_, at_random), (a, b) in zip(parts, pairwise(ends), strict=True):
        ids = [str(i) for i in range(a, b)]
        asked = one.select_requests(ids, X[a:b], utility[a:b], at_random=at_random)
        expected = naive.select_requests(ids, utility[a:b], at_random=at_random)
        assert asked.ids == [id for id, *_ in expected]
        for k, name in enumerate(("utility", "propensity", "audit", "selected"), start=1):
            told = np.array([row[k] for row in expected], dtype=getattr(asked, name).dtype)
            np.testing.assert_array_equal(getattr(asked, name), told)
        state, arrays = one.state()
        assert state["draws"] == naive.draws.bit_generator.state
        assert state["places"] == naive.places.bit_generator.state
        assert state["selection"] == (
            naive.threshold if strategy.selection == "variable_uncertainty" else 0
        )
        assert one.budget.state() == naive.state(one.budget)
        np.testing.assert_array_equal(arrays["utility"], naive.utilities)
        np.testing.assert_array_equal(arrays["X"][:, 0], np.float32(naive.utilities))


@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_batch_is_answered_as_its_parts(selection):
    strategy, answers = QueryConfig(budget=0.2, selection=selection, window=30), []
    utility = np.random.default_rng(5).random(500)
    X = utility.astype(np.float32)[:, None]
    for size in (1, 90, 500):
        one, ids, chances = Querier(strategy, np.random.SeedSequence(3)), [], []
        one.set_n_features(1)
        for start in range(0, 500, size):
            part = slice(start, min(start + size, 500))
            named = [str(i) for i in range(part.start, part.stop)]
            asked = one.select_requests(named, X[part], utility[part], at_random=False)
            ids, chances = ids + asked.ids, chances + asked.propensity.tolist()
        answers.append((ids, chances, repr(one.state())))
    assert answers[0] == answers[1] == answers[2]
