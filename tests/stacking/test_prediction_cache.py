import gc
from types import SimpleNamespace

import numpy as np
import pytest

from streamboost.stacking import prediction_cache
from streamboost.stacking.prediction_cache import CachedPrediction, PredictionCache


def said(before=0, n_classes=2, value=0.0):
    logs = np.full((3, n_classes), value, dtype=np.float32)
    return CachedPrediction(before, logs, np.arange(n_classes) != 1)


def as_lists(one):
    return one.newest_class, one.logs.dtype, one.logs.tolist(), one.known.tolist()


def test_what_was_said_is_known_once_by_its_id():
    prediction_cache, one = PredictionCache(), said()
    prediction_cache.put("a", one)
    assert prediction_cache.pop("b") is None
    assert as_lists(prediction_cache.pop("a")) == as_lists(one)
    assert prediction_cache.pop("a") is None


def test_of_an_id_that_comes_again_the_newest_counts():
    prediction_cache, second = PredictionCache(), said(value=-2)
    prediction_cache.put("a", said())
    prediction_cache.put("a", second)
    assert len(prediction_cache) == 1
    assert as_lists(prediction_cache.pop("a")) == as_lists(second)


@pytest.mark.parametrize(("bound", "value"), [("_MOST", 5), ("_MOST_BYTES", 5 * 24)])
def test_the_oldest_are_forgotten_first(monkeypatch, bound, value):
    monkeypatch.setattr(prediction_cache, bound, value)
    kept = PredictionCache()
    for i in range(12):
        kept.put(str(i), said())
    kept.put("8", said())  # the newest, now
    kept.put("12", said())
    kept.put("13", said())
    assert len(kept) == 5
    assert [i for i in map(str, range(14)) if kept.pop(i)] == ["8", "10", "11", "12", "13"]
    for i in range(5):
        kept.put(str(i), said())
    assert len(kept) == 5


def test_cached_predictions_are_not_tracked_by_the_garbage_collector():
    kept, one = PredictionCache(), said()
    kept.put("first", one)
    gc.collect()
    before = len(gc.get_objects())
    for i in range(4_000):
        kept.put(str(i), one)
    gc.collect()
    assert len(gc.get_objects()) < before + 2_000


def test_a_memory_resumed_is_the_same():
    kept, twin = PredictionCache(), PredictionCache()
    for i in range(6):
        kept.put(str(i), said(before=i - 1, n_classes=i, value=-i))
    twin.resume(*kept.state())
    assert [list(map(type, one)) for one in twin.state()[0]] == [
        list(map(type, one)) for one in kept.state()[0]
    ]
    for i in range(6):
        before, logs, known = kept.pop(str(i))
        other = twin.pop(str(i))
        assert other.newest_class == before
        np.testing.assert_array_equal(other.logs, logs)
        np.testing.assert_array_equal(other.known, known)
    assert len(twin) == twin._bytes == 0


def test_an_empty_memory_is_resumed():
    twin = PredictionCache()
    twin.resume(*PredictionCache().state())
    assert len(twin) == 0


def test_a_record_scored_alone_is_remembered_like_those_of_a_batch():
    experts = np.log(np.array([[[0.25, 0.75]], [[0.5, 0.5]]]))
    scored = SimpleNamespace(experts=experts, known=np.array([True, False]))
    alone, together = PredictionCache(), PredictionCache()
    for i, id in enumerate("abca"):
        alone.put_scored(id, i, scored)
        together.put_all([id], i, scored)
    alone.put("d", said())
    together.put("d", said())
    assert len(alone) == len(together) == 4
    assert alone.state()[0] == together.state()[0]
    alone.put_scored("e", 7, scored)
    assert alone.pop("e").newest_class == 7
    assert alone.pop("e") is None
    assert alone.pop("a").newest_class == 3
