"""History of points: bounded in size, and exact in its sums."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.connectors.base import Message
from streamboost.connectors.messages.outgoing import DeadLetter
from streamboost.pipelines.status import history as boards
from streamboost.pipelines.status.file import COUNTED
from streamboost.pipelines.status.history import HistoryBuffer


def counting(**counts):
    return dict.fromkeys(COUNTED, 0) | counts


@pytest.fixture
def small(monkeypatch):
    """A board of at most twenty points."""
    monkeypatch.setattr(boards, "MOST_POINTS", 20)
    monkeypatch.setattr(boards, "RECENT", 20_000)
    return HistoryBuffer()


@settings(max_examples=30)
@given(records=st.lists(st.integers(0, 100), max_size=200), gap=st.integers(1, 5_000))
def test_points_stay_bounded_and_none_of_what_they_count_is_lost(records, gap):
    board = HistoryBuffer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boards, "MOST_POINTS", 20)
        for i, n in enumerate(records):
            board.add_point(i * gap, i, counting(records=n, seconds=1.0, lag=i))
    values = [json.loads(text) for _, _, text in board.points.values()]
    assert len(values) == min(len(records), 20)
    assert sum(value["records"] for value in values) == sum(records)
    assert sum(value["seconds"] for value in values) == len(records)
    if records:
        assert values[-1]["lag"] == len(records) - 1


def test_the_whole_run_stays_in_sight_the_newest_part_most_finely(small):
    for i in range(2_000):
        small.add_point(i * 1_000, i, counting(records=1))
    times = [time // 1_000 for time, _, _ in small.points.values()]
    gaps = [b - a for a, b in pairwise(times)]
    assert (times[0] < 500, times[-1]) == (True, 1_999)
    assert max(gaps) < 700
    assert sum(gaps[:5]) > 20 * sum(gaps[-5:])


def test_lists_keep_the_newest_under_numbers_never_given_twice():
    board = HistoryBuffer()
    for i in range(1_200):
        board.add_chart_mark(i, i, "command", None, str(i))
    for start in range(0, 700, 70):
        board.add_predictions(b'{"id": "%d"}' % i for i in range(start, start + 70))
    board.add_dead_letters(b"{}" for _ in range(300))
    assert [mark[-1] for mark in board.marks.values()] == [str(i) for i in range(200, 1_200)]
    shown = [json.loads(one) for (one,) in board.predictions.values()]
    assert [int(one["id"]) for chunk in shown for one in chunk] == list(range(140, 700))
    assert len(board.dead_letters) == 200
    numbers = [*board.marks, *board.predictions, *board.dead_letters]
    assert len(set(numbers)) == len(numbers)
    assert list(board.marks) == sorted(board.marks)


@pytest.mark.parametrize("payload", [b"x" * 60_000, b"\xff" * 60_000])
def test_of_a_long_dead_letter_the_beginning_is_shown(payload):
    letter = DeadLetter.from_message(
        Message(payload, "0", 1, 60_000), "bad_json", "why", source="records"
    )
    board = HistoryBuffer()
    board.add_dead_letters([letter.encode()])
    ((text,),) = board.dead_letters.values()
    shown = json.loads(text)
    assert len(shown["payload"]) == 4_096
    assert (shown["size"], shown["encoding"]) == (60_000, letter.encoding)
    assert letter.payload.startswith(shown["payload"])


@pytest.mark.slow
def test_predictions_do_not_hold_on_to_the_long_texts_that_they_repeat():
    board = HistoryBuffer()
    short = {"id": "0", "label": "a", "probabilities": {"a": 1.0}, "fields": {"city": "Rome"}}
    long = short | {"fields": {"text": "so much " * 100_000}}
    board.add_predictions([json.dumps(one).encode() for one in (short, *[long] * 600)])
    board.add_predictions([json.dumps(short).encode()])
    rows = board.rows_by_table()["predictions"]
    kept = [one for (row,) in rows.values() for one in json.loads(row)]
    assert kept[-1] == short
    assert kept[0] == {name: short[name] for name in ("id", "label", "probabilities")}
    assert sum(len(row) for (row,) in board.rows_by_table()["predictions"].values()) < 100_000
