import datetime
import decimal
import json
import sys
from contextlib import closing

import pytest

from streamboost.connectors.files.parquet import ParquetSource
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError, ConnectorError


@pytest.fixture
def written(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(columns, **settings):
        path = tmp_path / "records.parquet"
        table = pyarrow.table(columns) if isinstance(columns, dict) else columns
        parquet.write_table(table, path, **settings)
        return path

    return write


def test_columns_become_fields_and_named_ones_text(written):
    columns = {
        "id": [1, None],
        "a": [float("nan"), 2.5],
        "label": [3, 4],
        "day": [datetime.date(2020, 1, 2), None],
        "price": [decimal.Decimal("1.50"), None],
    }
    source = ParquetSource(written(columns), text={"id", "label", "absent"})
    assert [json.loads(message.payload) for message in source.poll(5)] == [
        {"id": "1", "a": None, "label": "3", "day": "2020-01-02", "price": 1.5},
        {"id": None, "a": 2.5, "label": "4", "day": None, "price": None},
    ]
    source.close()


def test_an_infinity_is_a_dead_letter_that_says_so(written):
    source = ParquetSource(written({"id": ["x", "y"], "a": [float("inf"), 1.0]}))
    found, dead = Schema(numeric=["a"]).decode(source.poll(5))
    source.close()
    assert found.ids == ["y"]
    assert [letter.reason for letter in dead] == ["infinite"]


def test_what_is_left_is_the_lag(written):
    source = ParquetSource(written({"id": range(10)}, row_group_size=4))
    source.seek({"0": 7})
    assert source.lag() == 3
    assert [json.loads(m.payload)["id"] for m in source.poll(10)] == ["7", "8", "9"]
    assert source.lag() == 0
    source.close()


def test_a_file_that_is_none_is_refused_by_its_name(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "records.parquet"
    with pytest.raises(ConnectorError, match="there is no file"):
        ParquetSource(path).poll(1)
    path.write_text("id,a\n")
    with pytest.raises(ConnectorError, match=r"cannot read .*records\.parquet as Parquet"):
        ParquetSource(path).poll(1)


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigurationError, match=r"install streamboost\[parquet\]"):
        ParquetSource("records.parquet")


def test_infinity_in_a_column_that_nobody_uses_spoils_no_record(written):
    path = written({"id": ["1", "2"], "a": [1.0, float("inf")], "b": [float("-inf"), 1.0]})
    with closing(ParquetSource(path)) as source:
        messages = source.poll(9)
    found, dead = Schema(fields={"a": "number"}).decode(messages)
    assert found.ids == ["1", "2"]
    assert not dead
    found, dead = Schema(numeric=["a"]).decode(messages)
    assert found.ids == ["1"]
    assert [letter.reason for letter in dead] == ["infinite"]


def test_date_beyond_the_calendar_is_text(written):
    pyarrow = pytest.importorskip("pyarrow")
    days = pyarrow.array([0, 10**7, None], pyarrow.date32())
    source = ParquetSource(written({"id": ["1", "2", "3"], "until": days}))
    with closing(source):
        found = [json.loads(message.payload)["until"] for message in source.poll(5)]
    assert found == ["1970-01-01", "29349-01-26", None]


def test_row_with_text_that_is_not_utf_8_is_a_dead_letter_alone(written):
    pyarrow = pytest.importorskip("pyarrow")
    note = pyarrow.array([b"so far", b"\xff\xfe", None]).view(pyarrow.string())
    path = written({"id": ["1", "2", "3"], "a": [1.5, 2.5, 3.5], "note": note})
    with closing(ParquetSource(path)) as source:
        read = source.poll(2)
        bookmark = source.content_fingerprint
        rest = source.poll(5)
    records, dead = Schema(fields={"a": "number"}).decode([*read, *rest])
    assert records.ids == ["1", "3"]
    assert [(one.reason, one.position) for one in dead] == [("bad_row", {"0": 1})]
    assert "column 'note'" in dead[0].detail
    with closing(ParquetSource(path)) as again:
        again.set_expected_content(bookmark)
        again.seek({"0": 2})
        assert again.poll(5) == rest


def test_columns_of_one_name_are_refused(written):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table([pyarrow.array([n]) for n in range(3)], names=["id", "a", "a"])
    with (
        closing(ParquetSource(written(table))) as source,
        pytest.raises(ConnectorError, match="names the column 'a' twice: rename one of them"),
    ):
        source.poll(1)


def test_whole_decimals_keep_their_digits(written):
    codes = [decimal.Decimal(10**19 + n) for n in range(2)]
    with closing(ParquetSource(written({"id": ["1", "2"], "code": codes}))) as source:
        found = [json.loads(message.payload)["code"] for message in source.poll(5)]
    assert found == [10**19, 10**19 + 1]


def test_ids_and_labels_are_the_text_that_json_would_give(written):
    pyarrow = pytest.importorskip("pyarrow")
    columns = {
        "id": pyarrow.array([7.0, 8.5, None, float("nan")]),
        "label": pyarrow.array([True, False, None, True]),
        "name": pyarrow.array([b"dog", b"\xc3\xa9", None, b"cat"]),
    }
    source = ParquetSource(written(columns), text={"id", "label", "name"})
    assert [json.loads(message.payload) for message in source.poll(5)] == [
        {"id": "7", "label": "true", "name": "dog"},
        {"id": "8.5", "label": "false", "name": "é"},
        {"id": None, "label": None, "name": None},
        {"id": None, "label": "true", "name": "cat"},
    ]
    source.close()


def test_whole_decimals_are_whole_labels_and_lists_are_none(written):
    columns = {
        "id": [decimal.Decimal("7.00"), decimal.Decimal("8.50"), decimal.Decimal("9.00")],
        "label": [["a"], ["b"], None],
        "tag": [{"b": 1}, None, None],
    }
    with closing(ParquetSource(written(columns), text=columns)) as source:
        messages = source.poll(5)
    assert [json.loads(message.payload) for message in messages] == [
        {"id": "7", "label": ["a"], "tag": {"b": 1}},
        {"id": "8.50", "label": ["b"], "tag": None},
        {"id": "9", "label": None, "tag": None},
    ]
    _, dead = Schema(label="auto").decode_labels(messages[:2])
    assert [letter.reason for letter in dead] == ["bad_label", "bad_label"]


def test_a_binary_id_that_is_not_utf_8_is_a_damaged_message(written):
    pyarrow = pytest.importorskip("pyarrow")
    columns = {"id": pyarrow.array([b"\xff\x00", b"k1"]), "a": [1.0, 2.0]}
    source = ParquetSource(written(columns), text={"id"})
    first, second = source.poll(5)
    assert first.damage is not None
    assert "column 'id'" in first.damage
    assert json.loads(second.payload) == {"id": "k1", "a": 2.0}
    source.close()


def test_a_binary_column_is_text_where_it_is_utf_8_and_base64_elsewhere(written):
    pyarrow = pytest.importorskip("pyarrow")
    columns = {"id": ["k1", "k2"], "label": pyarrow.array([b"hi", b"\xff\x00"])}
    with closing(ParquetSource(written(columns))) as source:
        rows = [json.loads(message.payload) for message in source.poll(5)]
    assert [row["label"] for row in rows] == ["hi", "/wA="]
