import csv
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from streamboost.connectors.files.csv import CsvSource
from streamboost.connectors.messages.decoding import make_time_reader
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConnectorError
from streamboost.features.features import Features


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


def test_cells_are_text_and_null_where_they_are_empty(source_of):
    source = source_of(b'id,a,b,c\n007,,NaN,"1,5"\n1e3,-0.5e-2,+3,01\n')
    assert records(source) == [
        {"id": "007", "a": None, "b": "NaN", "c": "1,5"},
        {"id": "1e3", "a": "-0.5e-2", "b": "+3", "c": "01"},
    ]


def test_codes_of_a_declared_category_keep_their_text(source_of):
    codes = ["01", "1", "1e0", "001", "1.0", "inf", "nan", "0x1", " 1"]
    messages = source_of("".join(["id,a\n", *(f"{c},{c}\n" for c in codes)]).encode()).poll(100)
    found, dead = Schema(fields={"a": "category"}).decode(messages)
    assert [value for (value,) in found.values] == codes
    assert not dead


def test_cells_of_a_number_are_numbers_and_others_missing(source_of):
    cells = {"1.50": 1.5, " 2 ": 2, "007": 7, "1e0": 1, "+3": 3, ".5": 0.5, "nan": None, "": None}
    unread = ["1_000", "1,000", "0x1f", "inf", "-Infinity", "1e999", "\u0661", "red", "9" * 50]
    rows = [f'{n},"{cell}"\n' for n, cell in enumerate([*cells, *unread])]
    messages = source_of("".join(["id,a\n", *rows]).encode()).poll(100)
    schema = Schema(fields={"a": "number"})
    found, dead = schema.decode(messages)
    assert not dead
    assert [value for (value,) in found.values] == [*cells.values(), *unread]
    features = Features({"a": "number"})
    features.encode_arrivals(found.values)
    assert features.unreadable["a"] == len(unread)


def test_a_column_that_nobody_uses_spoils_no_record(source_of):
    cells = ["6383e67382050465", "1e999", "inf", "nan", "{", "\x00", "1" * 500]
    rows = [f"{n},1,{cell}\n" for n, cell in enumerate(cells)]
    messages = source_of("".join(["id,a,hash\n", *rows]).encode()).poll(100)
    listed, inferred = Schema(numeric=["a"]), Schema(exclude=["hash"]).infer(messages).schema
    for schema in (listed, inferred):
        found, dead = schema.decode(messages)
        assert len(found) == len(cells)
        assert not dead


def test_fields_are_told_by_all_their_sampled_cells(source_of):
    columns = {
        "price": [f"{n / 8}" for n in range(40)],
        "tiny": [repr(10.0**-n) for n in range(40)],
        "gap": ["nan", "", "inf", *(f"{n / 8}" for n in range(37))],
        "zip": ["01067", "10115"] * 20,
        "hash": [f"{7**n % 10**9:09}e{n:02}" for n in range(40)],
        "country": ["+49", "+1"] * 20,
        "version": ["1e0", "1"] * 20,
        "large": ["1_000", "2_000"] * 20,
        "arabic": ["\u0661", "\u0662"] * 20,
    }
    rows = [",".join([str(n), *row]) for n, row in enumerate(zip(*columns.values(), strict=True))]
    content = "\n".join([",".join(["id", *columns]), *rows, ""])
    schema, said = Schema().infer(source_of(content.encode()).poll(100))
    kinds = {name: field.kind for name, field in schema.fields.items()}
    numbers = dict.fromkeys(("price", "tiny", "gap"), "number")
    categories = ("zip", "country", "version", "large", "arabic")
    assert kinds == numbers | dict.fromkeys(categories, "category")
    assert "hash" in said


def test_json_within_a_cell_is_pointed_out(source_of):
    rows = [f'{n},"{{""os"": ""ios"", ""n"": {n}}}"\n' for n in range(30)]
    _, said = Schema(fields="auto", named={"a": "number"}).infer(
        source_of("".join(["id,device\n", *rows]).encode()).poll(100)
    )
    assert "JSON inside in 30 of 30 records: write JSON Lines" in said


def test_a_time_is_a_number_where_it_is_plainly_one(source_of):
    messages = source_of(b"id,at,a\n1,1772350200.5,1\n2,20260301,1\n3,2026-03-01,1\n").poll(9)
    times = [1772350200.5, "20260301", "2026-03-01"]
    for schema in (Schema(time="at", numeric=["a"]), Schema(time="at", fields={"a": "number"})):
        assert schema.decode(messages).records.times == times
    read = make_time_reader("at")
    assert [read(message) for message in messages] == [
        1772350200500,
        1772323200000,
        1772323200000,
    ]


@pytest.mark.parametrize(
    ("kind", "cells", "labels"),
    [
        ("auto", ["01", "1", "1e0"], ["01", "1", "1e0"]),
        ("string", ["01", "1", "nan"], ["01", "1", "nan"]),
        ("integer", ["01", "2", "-3"], [1, 2, -3]),
        ("boolean", ["1", "0", "True"], ["true", "false", "true"]),
    ],
)
def test_labels_are_read_as_what_they_are_said_to_be(source_of, kind, cells, labels):
    rows = [f"{n},{cell},1772350200\n" for n, cell in enumerate(cells)]
    messages = source_of("".join(["id,label,time\n", *rows]).encode()).poll(9)
    found, dead = Schema(label=kind, numeric=["a"]).decode_labels(messages)
    assert found.labels == labels
    assert found.times == [1772350200] * 3
    assert not dead


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (b"7", "1 cell, and the header names 2 columns"),
        (b"7,1,red", "3 cells, and the header names 2 columns"),
        (b"id,a", "the header again"),
        (b"\xef\xbb\xbfid,a", "the header again"),
        (b"id,a,colour", "a header again, of 3 columns where the first line of the file names 2"),
    ],
)
def test_a_row_of_other_columns_says_so_in_its_dead_letter(source_of, row, said):
    found, dead = Schema(numeric=["a"]).decode(source_of(b"id,a\n" + row + b"\n9,1\n").poll(9))
    assert found.ids == ["9"]
    assert [(letter.reason, letter.position) for letter in dead] == [("bad_row", {"0": 5})]
    assert said in dead[0].detail
    assert dead[0].payload == row.decode()


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


def test_row_continues_while_a_quoted_cell_is_open(source_of):
    content = b'id,text\n1,"Dear all,\r\n99,yours\n\n"\n2,"5"" pipe"\n3,5" pipe\n4,"open\n5,shut"\n'
    source = source_of(content)
    first = source.poll(2)
    texts = ["Dear all,\n99,yours\n\n", '5" pipe', '5" pipe', "open\n5,shut"]
    rest = source.poll(9)
    found = [json.loads(message.payload) for message in (*first, *rest)]
    assert [(row["id"], row["text"]) for row in found] == [*zip("1234", texts, strict=True)]
    assert [content[message.offset :][:1] for message in (*first, *rest)] == [
        b"1",
        b"2",
        b"3",
        b"4",
    ]
    assert source.read_range({"0": (rest[0].offset, len(content))}, 2) == rest
    assert source.read_range({"0": (first[0].offset, rest[0].offset)}, 2) == first


@pytest.mark.parametrize("rest", [b"2,b\n3,c\n", b'2,"b"\n3,c\n'])
def test_cell_that_is_never_closed_is_one_dead_letter(source_of, rest):
    source = source_of(b'id,text\n1,"a\n' + rest)
    decoded = Schema(fields={"text": "category"}).decode(source.poll(9))
    assert len(decoded.dead) == 1
    assert decoded.records.ids == ["2", "3"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (b'1,"a', "a quoted cell is not closed: add the quote"),
        (b'1,"5" pipe"', "text after its closing quote: write a quote within a cell twice"),
        (b'1,"5" pipe', "text after its closing quote"),
    ],
)
def test_row_with_a_wrong_quote_is_a_dead_letter_that_says_so(source_of, row, said):
    messages = source_of(b"id,text\n" + row + b"\n2,b\n").poll(9)
    decoded = Schema(fields={"text": "category"}).decode(messages)
    assert decoded.records.ids == ["2"]
    assert [letter.reason for letter in decoded.dead] == ["bad_row"]
    assert said in decoded.dead[0].detail


@pytest.mark.parametrize(("follow", "ending"), [(True, b"\n"), (False, b"")])
def test_row_that_no_quote_can_complete_holds_no_other_row_back(source_of, follow, ending):
    source = source_of(b'id,text\n1,"5" pipe"\n2,b' + ending, follow=follow)
    decoded = Schema(fields={"text": "category"}).decode(source.poll(9))
    assert len(decoded.dead) == 1
    assert decoded.records.ids == ["2"]


def test_finished_file_without_a_last_line_break_has_one_dead_letter_of_a_stray_quote(source_of):
    rows = b"\n".join(b"%d,b" % n for n in range(2, 30))
    decoded = Schema(fields={"text": "category"}).decode(
        source_of(b'id,text\n1,"a\n' + rows).poll(99)
    )
    assert [letter.position for letter in decoded.dead] == [{"0": 8}]
    assert decoded.records.ids == [str(n) for n in range(2, 30)]


def test_line_that_is_no_text_says_so_whatever_its_quotes(source_of):
    messages = source_of(b'id,text\n1,"\xff\n').poll(9)
    decoded = Schema(fields={"text": "category"}).decode(messages)
    assert "not UTF-8" in decoded.dead[0].detail


def test_rows_within_quotes_are_one_row_and_a_warning_names_its_line(source_of, caplog):
    rows = b"".join(b"%d,b\n" % n for n in range(2, 30))
    content = b'id,text\n0,a\n1,"a\n' + rows + b'30,c"\n31,"d\n' + rows + b'32,e"\n33,f\n'
    found = records(source_of(content))
    assert [row["id"] for row in found] == ["0", "1", "31", "33"]
    assert caplog.text.count("the row at line 3 has 30 lines within quotes") == 1
    assert caplog.text.count("within quotes") == 1


def test_long_text_within_quotes_needs_no_warning(source_of, caplog):
    text = b"".join(b"Dear %d\nyours, and so on\n" % n for n in range(30))
    found = records(source_of(b'id,text\n1,"' + text + b'"\n2,b\n'))
    assert [row["id"] for row in found] == ["1", "2"]
    assert "within quotes" not in caplog.text


@pytest.mark.parametrize("n", [50, 50_000], ids=["beyond the record", "beyond a cell of csv"])
def test_row_beyond_the_largest_record_is_one_dead_letter(source_of, n):
    row = b'1,"a\n' + b"2,b\n" * n + b'3,c"\n'
    source = source_of(b"id,text\n" + row + b'4,"d\n"\n', max_bytes=100)
    large, after = source.poll(99)
    assert large.size > 100
    assert len(large.payload) <= 100
    assert json.loads(after.payload) == {"id": "4", "text": "d\n"}
    assert source.read_range({"0": (8, 8 + len(row))}, 1) == [large]
    decoded = Schema(fields={"text": "category"}, max_record_bytes=100).decode([large, after])
    assert [letter.reason for letter in decoded.dead] == ["too_large"]


def test_row_with_an_open_cell_is_read_by_the_run_after_its_end_is_written(tmp_path, caplog):
    path = tmp_path / "records.csv"
    path.write_bytes(b'id,text\n1,a\n2,"pasted\n77777,X')
    with closing(CsvSource(path)) as source:
        assert records(source) == [{"id": "1", "text": "a"}]
        assert records(source) == []
        assert caplog.text.count("the row at line 3 has a quoted cell that is open") == 1
        bookmark, position = source.content_fingerprint, source.position()
    with path.open("ab") as file:
        file.write(b'\nend"\n3,c\n')
    with closing(CsvSource(path)) as source:
        source.set_expected_content(bookmark)
        source.seek(position)
        assert records(source) == [
            {"id": "2", "text": "pasted\n77777,X\nend"},
            {"id": "3", "text": "c"},
        ]


def test_rows_after_an_open_cell_are_read_once_a_line_break_ends_the_file(tmp_path):
    path = tmp_path / "records.csv"
    path.write_bytes(b'id,text\n1,"a\n2,b\n3,c')
    with closing(CsvSource(path)) as source:
        assert source.poll(9) == []
        with path.open("ab") as file:
            file.write(b"\n")
        decoded = Schema(fields={"text": "category"}).decode(source.poll(9))
    assert len(decoded.dead) == 1
    assert decoded.records.ids == ["2", "3"]


def test_following_warns_of_a_cell_that_stays_open(tmp_path, caplog):
    path = tmp_path / "records.csv"
    path.write_bytes(b'id,text\n1,"a\n' + b"2,b\n" * 20)
    source = CsvSource(path, follow=True)
    assert records(source) == records(source) == []
    assert caplog.text.count("the row at line 2 has a quoted cell that is open for 21 lines") == 1
    with path.open("ab") as file:
        file.write(b'"\n3,c\n')
    assert [row["id"] for row in records(source)] == ["1", "3"]
    source.close()


def test_following_waits_for_the_end_of_an_open_cell(tmp_path):
    path = tmp_path / "records.csv"
    path.write_bytes(b'id,text\n1,a\n2,"b\n')
    source = CsvSource(path, follow=True)
    assert [row["id"] for row in records(source)] == ["1"]
    assert records(source) == []
    with path.open("ab") as file:
        file.write(b'9,c"\n3,d\n')
    assert records(source) == [{"id": "2", "text": "b\n9,c"}, {"id": "3", "text": "d"}]
    source.close()


def test_a_column_without_a_name_is_left_out(source_of):
    assert records(source_of(b",id,a\n0,x,1\n")) == [{"id": "x", "a": "1"}]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"id,a,a\n", "'a' twice"),
        (b"\xff\n", "no header"),
        (b"\n1,2\n", "no header"),
        (b"id,a\r1,2\r", "no header .* end with a line feed"),
        ("id,a\n1,2\n".encode("utf-16-le"), "no header .* in UTF-8"),
        (b"id;a;kind\n1;2;x\n", "';' where commas are expected: separate the columns by commas"),
        (b"id\ta\n1\t2\n", r"'\\t' where commas are expected"),
    ],
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
    assert records(source_of(b"\xef\xbb\xbfid,a\r\n1,2\r\n")) == [{"id": "1", "a": "2"}]


def test_what_is_left_is_the_lag_in_bytes(source_of):
    source = source_of(b"id,a\n1,2\n3,4\n")
    assert source.lag() == 13
    source.poll(1)
    assert source.lag() == 4


def test_cell_longer_than_the_limit_of_pythons_reader_is_read(tmp_path):
    path = tmp_path / "records.csv"
    long = "x" * 200_000
    path.write_text(f'id,note\n1,{long}\n2,"{long}\n{long}"\n3,"a\n{long}\n4,b\n')
    with closing(CsvSource(path, max_bytes=1_000_000)) as source:
        read = source.poll(10)
    cells = [json.loads(message.payload)["note"] for message in read[:2]]
    assert cells == [long, f"{long}\n{long}"]
    assert [message.payload[:3] for message in read[2:]] == [b'3,"', b"xxx", b'{"i']
    with closing(CsvSource(path, max_bytes=300_000)) as source:
        assert [message.size > 300_000 for message in source.poll(3)] == [False, True, False]


@pytest.mark.slow
def test_long_cells_are_read_by_several_threads_at_once(tmp_path):
    limit, interval = csv.field_size_limit(), sys.getswitchinterval()
    for i, n in enumerate((140_000, 200_000, 300_000, 400_000)):
        lines = "".join(f"{k},{'x' * n}\n" for k in range(30))
        (tmp_path / f"{i}.csv").write_text(f"id,note\n{lines}")

    def read(i):
        with closing(CsvSource(tmp_path / f"{i}.csv")) as source:
            return [message.damage for message in source.poll(100)]

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(read, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert found == [[None] * 30] * 4
    assert csv.field_size_limit() == limit
