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
