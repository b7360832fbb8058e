"""Writers of the service: one at a time, all or nothing, with a bounded wait."""

import threading

import pytest
from serving import put, read, site_of, some_records

from streamboost.connectors.memory import MemoryLog, MemorySink
from streamboost.connectors.messages.outgoing import Label
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConnectorError, DataError, UnavailableError
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from streamboost.pipelines.service.labelling import writers as writing
from streamboost.pipelines.service.labelling.writers import LabelWriter, RecordWriter
from streamboost.pipelines.state.commands import Command, queue_command


class Slow(MemorySink):
    """A sink that is told when it may end."""

    def __init__(self, log):
        super().__init__(log)
        self.begun, self.may_end = threading.Event(), threading.Event()

    def flush(self):
        self.begun.set()
        assert self.may_end.wait(60)
        super().flush()


def test_whoever_finds_a_write_that_does_not_end_is_told_to_come_again(monkeypatch):
    monkeypatch.setattr(writing, "PATIENCE", 0.01)
    log = MemoryLog()
    sink = Slow(log)
    writer = LabelWriter(sink, Schema(numeric=["a"]))
    first = threading.Thread(target=writer.write, args=([Label("1", "left")],))
    first.start()
    assert sink.begun.wait(60)
    with pytest.raises(UnavailableError, match="try again"):
        writer.write([Label("2", "left")])
    sink.may_end.set()
    first.join()
    assert log.payloads() == [b'{"id":"1","label":"left"}']


def test_what_failed_is_not_written_by_the_next(monkeypatch):
    log = MemoryLog()
    sink = MemorySink(log)
    writer = LabelWriter(sink, Schema(numeric=["a"]), mask=lambda text: text.replace("key", "***"))
    flush = sink.flush

    def fail():
        raise ConnectorError("the key is refused")

    monkeypatch.setattr(sink, "flush", fail)
    with pytest.raises(ConnectorError, match=r"the \*\*\* is refused"):
        writer.write([Label("1", "left")])
    monkeypatch.setattr(sink, "flush", flush)
    writer.write([Label("2", "left")])
    assert log.payloads() == [b'{"id":"2","label":"left"}']


def test_records_are_judged_by_their_id_while_nobody_knows_the_features():
    log = MemoryLog()
    writer = RecordWriter(MemorySink(log), Schema(id="key", numeric="auto"))
    writer.write([{"key": 7, "a": "wide"}])
    assert log.payloads() == [b'{"key": 7, "a": "wide"}']
    with pytest.raises(DataError, match="missing_id"):
        writer.write([{"id": 7}])


def test_integer_labels_are_integers():
    log = MemoryLog()
    writer = LabelWriter(MemorySink(log), Schema(numeric=["a"], label="integer"))
    writer.write([Label("1", 3)])
    with pytest.raises(DataError, match="label 2 cannot be used"):
        writer.write([Label("1", 3), Label("2", "three")])
    assert len(log.payloads()) == 1


@pytest.mark.parametrize(
    ("kind", "label", "written"),
    [(None, "true", b'"true"'), ("boolean", "true", b"true"), ("integer", 3, b"3")],
)
def test_labels_are_written_as_the_pipeline_has_come_to_read_them(kind, label, written):
    log = MemoryLog()
    writer = LabelWriter(MemorySink(log), Schema(numeric=["a"]), kind=lambda: kind)
    writer.write([Label("1", label)])
    assert log.payloads() == [b'{"id":"1","label":%s}' % written]


def test_a_label_of_another_kind_than_the_first_is_refused_at_the_desk():
    writer = LabelWriter(MemorySink(MemoryLog()), Schema(numeric=["a"]), kind=lambda: "integer")
    with pytest.raises(DataError, match="labels here are whole numbers"):
        writer.write([Label("1", "grass")])


def test_text_that_is_neither_true_nor_false_is_not_taken_for_false():
    log = MemoryLog()
    writer = LabelWriter(MemorySink(log), Schema(numeric=["a"]), kind=lambda: "boolean")
    with pytest.raises(DataError, match="labels here are true or false"):
        writer.write([Label("1", "maybe")])
    writer.write([Label("1", "True")])
    assert log.payloads() == [b'{"id":"1","label":true}']


def test_both_booleans_are_offered_before_the_first_label():
    allowed = LabelWriter(MemorySink(MemoryLog()), Schema(label="boolean")).allowed_labels
    assert list(allowed) == ["true", "false"]
    assert not LabelWriter(MemorySink(MemoryLog()), Schema()).allowed_labels
    chosen = Schema(label="boolean", classes=("false", "true"))
    assert list(LabelWriter(MemorySink(MemoryLog()), chosen).allowed_labels) == ["false", "true"]


def test_records_with_nested_ids_are_judged_before_their_fields_are_known():
    log = MemoryLog()
    writer = RecordWriter(MemorySink(log), Schema(id="payment.id"))
    writer.write([{"payment": {"id": 7}, "note": "x"}])
    assert len(log.payloads()) == 1
    with pytest.raises(DataError, match="absent or null"):
        writer.write([{"id": 7}])


def test_a_label_of_a_dropped_class_is_refused_by_serve(file):
    config = load(file)
    queue_command(config.state, Command("drop", label="left"))
    put(config, "records", some_records(5, start=5_000))
    run(config, until_idle=True)
    with site_of(file) as site:
        labels = {"labels": [{"id": "x", "label": "right"}, {"id": "1", "label": "left"}]}
        answer = site.program().post("/api/v1/pipelines/test/labels", json=labels)
    assert answer.status_code == 422
    assert "the class 'left' was dropped" in answer.text
    assert all(label["id"] != "x" for label in read(config, "labels"))
