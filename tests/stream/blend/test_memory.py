from types import SimpleNamespace

import numpy as np
import pytest

from streamboost.stream.blend import memory
from streamboost.stream.blend.memory import Memory, Said


def said(before=0, n_classes=2, value=0.0):
    logs = np.full((3, n_classes), value, dtype=np.float32)
    return Said(before, logs, np.arange(n_classes) != 1)


def as_lists(one):
    return one.before, one.logs.dtype, one.logs.tolist(), one.known.tolist()


def test_what_was_said_is_known_once_by_its_id():
    memory, one = Memory(), said()
    memory.note("a", one)
    assert memory.take("b") is None
    assert as_lists(memory.take("a")) == as_lists(one)
    assert memory.take("a") is None


def test_of_an_id_that_comes_again_the_newest_counts():
    memory, second = Memory(), said(value=-2)
    memory.note("a", said())
    memory.note("a", second)
    assert len(memory) == 1
    assert as_lists(memory.take("a")) == as_lists(second)


@pytest.mark.parametrize(("bound", "value"), [("_MOST", 5), ("_MOST_BYTES", 5 * 24)])
def test_the_oldest_are_forgotten_first(monkeypatch, bound, value):
    monkeypatch.setattr(memory, bound, value)
    kept = Memory()
    for i in range(12):
        kept.note(str(i), said())
    kept.note("8", said())  # the newest, now
    kept.note("12", said())
    kept.note("13", said())
    assert len(kept) == 5
    assert [i for i in map(str, range(14)) if kept.take(i)] == ["8", "10", "11", "12", "13"]
    for i in range(5):
        kept.note(str(i), said())
    assert len(kept) == 5


def test_a_memory_resumed_is_the_same():
    kept, twin = Memory(), Memory()
    for i in range(6):
        kept.note(str(i), said(before=i - 1, n_classes=i, value=-i))
    twin.resume(*kept.state())
    assert [list(map(type, one)) for one in twin.state()[0]] == [
        list(map(type, one)) for one in kept.state()[0]
    ]
    for i in range(6):
        before, logs, known = kept.take(str(i))
        other = twin.take(str(i))
        assert other.before == before
        np.testing.assert_array_equal(other.logs, logs)
        np.testing.assert_array_equal(other.known, known)
    assert len(twin) == twin._bytes == 0


def test_an_empty_memory_is_resumed():
    twin = Memory()
    twin.resume(*Memory().state())
    assert len(twin) == 0


def test_a_record_scored_alone_is_remembered_like_those_of_a_batch():
    experts = np.log(np.array([[[0.25, 0.75]], [[0.5, 0.5]]]))
    scored = SimpleNamespace(experts=experts, known=np.array([True, False]))
    alone, together = Memory(), Memory()
    for i, id in enumerate("abca"):
        alone.hold(id, i, scored)
        together.note_all([id], i, scored)
    alone.note("d", said())
    together.note("d", said())
    assert len(alone) == len(together) == 4
    assert alone.state()[0] == together.state()[0]
    alone.hold("e", 7, scored)
    assert alone.take("e").before == 7
    assert alone.take("e") is None
    assert alone.take("a").before == 3
