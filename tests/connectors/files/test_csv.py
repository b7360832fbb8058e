import json

import pytest

from streamboost.connectors.files.csv import CsvSource
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConnectorError


@pytest.fixture
def source_of(tmp_path):
    made = []

    def make(content, **settings):
        path = tmp_path / "records.csv"
        path.write_bytes(content)
        made.append(CsvSource(path, **settings))
        return made[-1]

    yield make
    for source in made:
        source.close()


def records(source):
    return [json.loads(message.payload) for message in source.poll(100)]


def test_empty_and_nan_cells_are_missing_values_and_ids_are_text(source_of):
    source = source_of(b'id,a,b,c\n007,,NaN,"1,5"\n1e3,-0.5e-2,+3,.5\n')
    assert records(source) == [
        {"id": "007", "a": None, "b": None, "c": "1,5"},
        {"id": "1e3", "a": -0.005, "b": 3.0, "c": 0.5},
    ]


def test_text_columns_stay_text_and_an_empty_one_is_null(source_of):
    source = source_of(b"key,label,a\n1,2,3\n,,4\n", text={"key", "label"})
    assert records(source) == [
        {"key": "1", "label": "2", "a": 3},
        {"key": None, "label": None, "a": 4},
    ]


@pytest.mark.parametrize("word", ["inf", "-Infinity", "+INF", "1e999"])
def test_an_infinite_cell_is_a_dead_letter_that_says_so(source_of, word):
    messages = source_of(f"id,a\n1,{word}\n2,1\n".encode()).poll(10)
    found, dead = Schema(numeric=["a"]).decode(messages)
    assert found.ids == ["2"]
    assert [letter.reason for letter in dead] == ["infinite"]


@pytest.mark.parametrize(
    "row", [b"1", b"1,2,3", b'1,"2', b"\xff,2", b"", b"1" * 200 + b",2"], ids=repr
)
def test_a_damaged_row_is_a_dead_letter_and_the_next_is_read(source_of, row):
    source = source_of(b"id,a\n" + row + b"\n9,1\n", max_bytes=100)
    found, dead = Schema(numeric=["a"], max_record_bytes=100).decode(source.poll(10))
    assert found.ids == ["9"]
    assert len(dead) == 1


def test_a_column_without_a_name_is_left_out(source_of):
    assert records(source_of(b",id,a\n0,x,1\n")) == [{"id": "x", "a": 1}]


@pytest.mark.parametrize(
    ("header", "said"),
    [(b"id,a,a\n", "'a' twice"), (b"\xff\n", "no header"), (b"\n1,2\n", "no header")],
)
def test_a_header_that_cannot_be_used_is_refused(source_of, header, said):
    with pytest.raises(ConnectorError, match=said):
        source_of(header).poll(1)


def test_following_waits_for_the_header_and_for_the_end_of_a_row(tmp_path):
    path = tmp_path / "growing.csv"
    source = CsvSource(path, follow=True)
    seen = []
    for piece in (b"", b"id,", b"a\n1,", b"2", b"\n3,4\n"):
        with path.open("ab") as file:
            file.write(piece)
        seen.append([json.loads(m.payload)["id"] for m in source.poll(10)])
    source.close()
    assert seen == [[], [], [], [], ["1", "3"]]


def test_a_byte_order_mark_is_no_part_of_the_first_name(source_of):
    assert records(source_of(b"\xef\xbb\xbfid,a\r\n1,2\r\n")) == [{"id": "1", "a": 2}]


def test_what_is_left_is_the_lag_in_bytes(source_of):
    source = source_of(b"id,a\n1,2\n3,4\n")
    assert source.lag() == 13
    source.poll(1)
    assert source.lag() == 4
