import json
import logging
from contextlib import closing

import pytest

from streamboost.connectors.files.json_lines import JsonLinesSource
from streamboost.connectors.memory import MemoryLog, MemorySource
from streamboost.connectors.oracle.oracle import AnswersOracle, DelayedAnswerIds
from streamboost.connectors.oracle.table import AnswerFields, OracleLabels
from streamboost.errors import ConnectorError, DataError

FIELDS = AnswerFields("payment_id", "is_fraud")


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        (AnswerFields(as_text=False), ['"01"', '"1"', '"1e0"']),
        (AnswerFields(as_text=True), ['"01"', '"1"', '"1e0"']),
        (AnswerFields(as_text=False, as_number=True), ["1", "1", "1e0"]),
    ],
)
def test_labels_in_cells_are_text_unless_they_are_said_to_be_numbers(tmp_path, fields, labels):
    path = tmp_path / "answers.csv"
    path.write_text("id,label\n7,01\n8,1\n9,1e0\n")
    found = [OracleLabels(path, fields).label_message(id) for id in "789"]
    wanted = [f'{{"id":"{id}","label":{label}}}' for id, label in zip("789", labels, strict=True)]
    assert [message.decode() for message in found] == wanted


def as_json(**record):
    return json.dumps(record).encode()


def written(path, *lines):
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def asked(*ids, **more):
    return [as_json(id=id, **more) for id in ids]


class Wired:
    """An oracle over logs in memory; predictions are what passes."""

    def __init__(self, path, *, all_labels=False, **delay):
        self.requests, self.predictions = MemoryLog(), MemoryLog()
        self._path, self._all_labels, self._delay = path, all_labels, delay
        self.oracle = self.again()

    def again(self, position=None):
        """One that begins, as after a restart."""
        young = (
            DelayedAnswerIds(MemorySource(self.predictions), **self._delay) if self._delay else None
        )
        log = self.predictions if self._all_labels else self.requests
        oracle = AnswersOracle(OracleLabels(self._path), MemorySource(log), young)
        oracle.seek(position or {})
        return oracle

    def predict(self, *ids, **more):
        self.predictions.append(asked(*ids, **more))

    def labelled(self, limit=100):
        return [json.loads(m.payload)["id"] for m in self.oracle.poll(limit)]


@pytest.fixture
def path(tmp_path):
    return written(
        tmp_path / "answers.jsonl", *(as_json(id=n, label=f"of {n}") for n in range(100))
    )


def test_labels_are_text_whatever_they_were_where_the_schema_says_so(tmp_path):
    lines = [
        b'{"payment_id": "a", "is_fraud": true, "x": 1}',
        b'{"payment_id": 7, "is_fraud": 0}',
        '{"payment_id": "\u00e9\\"", "is_fraud": "\u00fc\\n"}'.encode(),
    ]
    path = written(tmp_path / "records.jsonl", *lines)
    text = OracleLabels(path, FIELDS)
    said = [json.loads(text.label_message(id)) for id in ("a", "7", 'é"')]
    assert [one["is_fraud"] for one in said] == ["true", "0", "ü\n"]
    assert [one["payment_id"] for one in said] == ["a", "7", 'é"']
    assert (
        json.loads(OracleLabels(path, FIELDS._replace(as_text=False)).label_message("7"))[
            "is_fraud"
        ]
        == 0
    )


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl.gz", "parquet"])
def test_all_kinds_of_files_answer(tmp_path, ending):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"payment_id": ["01", "02"], "is_fraud": ["0", "1"], "x": [1.0, 2]})
    path = tmp_path / f"records.{ending}"
    if ending == "parquet":
        table.to_parquet(path)
    elif ending.startswith("csv"):
        table.to_csv(path, index=False)
    else:
        table.to_json(path, orient="records", lines=True)
    assert OracleLabels(path, FIELDS).label_message("02") == b'{"payment_id":"02","is_fraud":"1"}'


def test_what_is_no_answer_is_left_out_and_counted(tmp_path, caplog):
    lines = [
        as_json(id=1, label="sky"),
        as_json(id=2),
        as_json(id=3, label=None),
        as_json(label="sky"),
        as_json(id=4, label={"a": 1}),
        b'{"id": 5',
        as_json(id=6, label="x" * 2_000),
        as_json(id=1, label="grass"),
    ]
    answers = OracleLabels(written(tmp_path / "a.jsonl", *lines), max_bytes=1_000)
    with caplog.at_level(logging.INFO):
        assert answers.label_message("1") == b'{"id":"1","label":"grass"}', "the later one holds"
    assert [answers.label_message(str(n)) for n in range(2, 7)] == [None] * 5
    said = str(answers)
    assert said.startswith(f"1 answers, 1 labels, in {tmp_path / 'a.jsonl'}; left out: ")
    for count in ("2 without a label", "1 without an id", "1 whose label is nested", "1 too large"):
        assert count in said
    assert "1 bad json" in said
    assert caplog.text.count("left out") == 1


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "it is empty"),
        ([as_json(id=1, is_frod=1)], "field 'label'; fields seen: id, is_frod"),
        ([as_json(id=1, labels="a")], "did you mean labels"),
        ([as_json(id=1, label=None)], "1 without a label"),
    ],
)
def test_a_file_without_an_answer_is_an_error_that_says_what_is_in_it(tmp_path, lines, told):
    path = written(tmp_path / "a.jsonl", *lines)
    with pytest.raises(DataError, match="holds no answer") as caught:
        OracleLabels(path).label_message("1")
    assert told in str(caught.value)
    assert str(path) in str(caught.value)
    with pytest.raises(ConnectorError, match="there is no file"):
        OracleLabels(tmp_path / "b.jsonl").label_message("1")


def test_requests_are_answered_in_their_order_but_for_unknown_ones(path):
    wired = Wired(path)
    wired.requests.append(asked("3", "unknown", "1"))
    assert wired.labelled(1) == ["3"]
    assert wired.labelled(1) == ["1"], "an unknown one does not end what there is"
    wired.requests.append(asked("unknown"))
    assert wired.labelled() == []
    assert wired.oracle.position() == {"0": 4}


def test_a_request_is_answered_once_so_many_further_records_have_been_predicted(path):
    wired = Wired(path, records=3)
    wired.predict("0", "1", "2", "3")
    wired.requests.append(asked("1", "2"))
    assert wired.labelled() == []
    wired.predict("4")
    assert wired.labelled() == ["1"]
    wired.predict("5")
    assert wired.labelled() == ["2"]


def test_every_record_is_answered_where_all_are(path):
    wired = Wired(path, all_labels=True, records=2)
    wired.predict("0", "unknown", "1", "2")
    assert wired.labelled() == ["0"]
    wired.predict(*(str(n) for n in range(3, 100)))
    assert wired.labelled(3) == ["1", "2", "3"]
    assert wired.labelled() == [str(n) for n in range(4, 98)]


def test_a_delay_in_time_is_counted_by_the_records_own(path):
    wired = Wired(path, all_labels=True, milliseconds=60_000)
    wired.predict("0", time="2026-01-01T00:00:00Z")
    wired.predict("1")
    wired.predict("2", time="2026-01-01T00:00:59Z")
    assert wired.labelled() == []
    wired.predict("3", time="2026-01-01T00:01:00Z")
    assert wired.labelled() == ["0", "1"], "one without a time is as old as the one before it"
    wired.predict("4", time="2025-06-01")
    assert wired.labelled() == []
    wired.predict("5", time="2027-01-01")
    assert wired.labelled() == ["2", "3", "4"]


@pytest.mark.parametrize("delay", [{"records": 3}, {"milliseconds": 3_000}, {}])
def test_one_that_begins_anywhere_gives_what_one_would_that_had_gone_on(path, delay):
    wired = Wired(path, all_labels=True, **delay)
    for n in range(40):
        wired.predict(str(n), time=n)
        before = wired.oracle.position()
        again = wired.again(before)
        expected = wired.oracle.poll(2)
        assert again.poll(2) == expected
        assert again.position() == wired.oracle.position()


def test_what_was_given_is_given_again_whatever_is_young(path):
    wired = Wired(path, records=5)
    wired.predict(*(str(n) for n in range(20)))
    wired.requests.append(asked("3", "unknown", "4", "7"))
    given = wired.oracle.poll(10)
    assert len(given) == 3
    # A file of another delay would not have them due yet.
    elsewhere = Wired(path, records=50)
    elsewhere.predict(*(str(n) for n in range(20)))
    elsewhere.requests.append(asked("3", "unknown", "4", "7", "8"))
    assert elsewhere.oracle.read_range({"0": (0, 4)}, 3) == given
    assert elsewhere.oracle.position() == {"0": 4}
    assert elsewhere.labelled() == [], "and from there it waits again"


def test_a_message_that_names_no_record_is_an_error_and_moves_nothing(path):
    wired = Wired(path)
    wired.requests.append([*asked("3"), b"{}"])
    for _ in range(2):
        with pytest.raises(ConnectorError, match=r"offset 1 .* names no record"):
            wired.oracle.poll(10)
    assert wired.oracle.position() == {"0": 0}
    with closing(wired.oracle):
        assert wired.labelled(1) == ["3"]


def test_requests_in_a_file_that_was_rotated_are_all_answered(tmp_path):
    answers, path = tmp_path / "answers.jsonl", tmp_path / "requests.jsonl"
    answers.write_text("".join(f'{{"id": {n}, "label": "sky"}}\n' for n in range(12)))
    ids, bookmark, position = [], None, {}
    for requests in (range(3), range(3, 12)):
        if bookmark is not None:
            path.rename(path.with_name("requests.jsonl.1"))
        path.write_text("".join(f'{{"id": "{n}"}}\n' for n in requests))
        oracle = AnswersOracle(OracleLabels(answers), JsonLinesSource(path, follow=True))
        with closing(oracle):
            if bookmark is not None:
                oracle.set_expected_content(bookmark)
            oracle.seek(position)
            while found := oracle.poll(2):
                ids += [int(json.loads(message.payload)["id"]) for message in found]
            bookmark, position = oracle.content_fingerprint, oracle.position()
    assert ids == list(range(12))
