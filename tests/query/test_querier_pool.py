import numpy as np
import pytest
from asking import decide, pool, querier, stream

from streamboost.errors import ConfigurationError


def test_a_pool_asks_for_the_best_of_the_newest_records_once_it_is_full():
    utility = stream(60)
    requests = decide(pool(), utility)
    best = np.argsort(utility[:40])[-4:]
    assert sorted(requests.ids) == sorted(str(i) for i in best)
    assert requests.selected.all()
    assert (requests.propensity == 1).all()


def test_a_pool_asks_for_rounds_as_often_as_the_budget_pays_for_them():
    one = pool(window=20)
    assert len(decide(one, stream(2000))) == 200


def test_a_cold_pool_asks_at_random():
    requests = decide(pool(), stream(60), at_random=True)
    np.testing.assert_array_equal(requests.propensity, [0.1] * 4)


def test_a_standing_pool_is_asked_in_rounds_without_a_new_record():
    one = pool(budget=0.25)
    utility = stream(40)
    first = decide(one, utility)
    more = [one.request_from_pool(4, at_random=False) for _ in range(3)]
    asked = [*first.ids, *(i for round in more for i in round.ids)]
    assert asked[:4] == first.ids
    assert set(asked) == {str(i) for i in np.argsort(utility)[-10:]}
    assert [len(round) for round in more] == [4, 2, 0]


def test_a_round_needs_a_pool_and_a_size():
    with pytest.raises(ConfigurationError, match='choose mode "pool"'):
        querier().request_from_pool(5, at_random=False)
    with pytest.raises(ConfigurationError, match="n, the requests of a round, is 0"):
        pool().request_from_pool(0, at_random=False)


def test_in_a_pool_audits_fall_on_records_that_leave_it_whether_or_not_they_were_useful():
    one = pool(budget=0.5, audit=1.0, burst=20)
    utility = stream(2000)
    requests = decide(one, utility)
    places = np.array([int(i) for i in requests.ids])[requests.audit]
    assert len(places) == pytest.approx(0.5 * 1960, abs=3)
    assert (requests.propensity == 1 / one.budget.block).all()
    assert abs(requests.utility.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(requests))


def test_the_pools_rounds_do_not_depend_on_where_audits_fall():
    """Also when the label of every audited record is known at once."""
    chosen = []
    for seed in (1, 2):
        one = pool(3, audit=0.5, budget=0.2)
        one._places = np.random.default_rng(seed)
        asked = []
        for i, utility in enumerate(stream(600)):
            got = decide(one, [utility], start=i)
            one.exclude(got.ids)
            asked += [id for id, selected in zip(got.ids, got.selected, strict=True) if selected]
        chosen.append(asked)
    assert len(chosen[0]) > 40
    assert chosen[0] == chosen[1]
