"""Errors and consumer lag in the output of `streamboost inspect`."""

import json
from contextlib import closing

import pytest

from streamboost.connectors.sqlite.stream import SqliteSink
from streamboost.errors import ConnectorError
from streamboost.pipelines.app.inspect import describe_pipeline, format_description
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.monitoring.last_error import LastErrorFile, read_last_error


def test_the_newest_trouble_is_kept_with_its_batch_and_without_secrets(tmp_path):
    path = tmp_path / "last_error"
    troubles = LastErrorFile(path, lambda text: text.replace("hunter2", "${PASSWORD}"), lambda: 7)
    assert read_last_error(path) is None
    troubles.on_error("the first")
    with pytest.raises(ZeroDivisionError), troubles.record_errors():
        raise ZeroDivisionError("hunter2 over 0")
    found = read_last_error(path)
    assert (found.sequence, found.text) == (7, "ZeroDivisionError: ${PASSWORD} over 0")


def test_a_trouble_that_cannot_be_written_down_stops_nobody(tmp_path):
    LastErrorFile(tmp_path / "missing" / "last_error", str, lambda: 0).on_error("x")
    (tmp_path / "damaged").write_bytes(b"{")
    assert read_last_error(tmp_path / "damaged") is None


def written(folder, records):
    """Return a pipeline over a file of `records`."""
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "records.jsonl").write_text(text)
    tables = {
        "pipeline": {"name": "test", "batch_records": 10},
        "source": {"connector": "files", "path": "records.jsonl"},
    }
    return parse(tables, folder, environment={})


def test_inspect_shows_what_ended_the_run(tmp_path, make_records):
    config = written(tmp_path, make_records(20)[0])
    path = tmp_path / "records.jsonl"
    run(config, until_idle=True)
    assert describe_pipeline(config.state)["last_error"] is None
    path.write_text("")
    with pytest.raises(ConnectorError, match="truncated"):
        run(config, until_idle=True)
    found = describe_pipeline(config.state)["last_error"]
    assert found["sequence"] == 2
    assert "records.jsonl was truncated" in found["text"]
    assert f"last error       {found['time']}, after batch 2: " in format_description(
        describe_pipeline(config.state)
    )


def test_inspect_shows_how_much_is_left_to_read(tmp_path, make_records):
    with closing(SqliteSink(tmp_path / "in.db", "records")) as sink:
        sink.write([json.dumps(record).encode() for record in make_records(30)[0]])
        sink.flush()
        tables = {
            "pipeline": {"name": "test"},
            "source": {"connector": "sqlite", "path": "in.db", "stream": "records"},
        }
        config = parse(tables, tmp_path, environment={})
        run(config, until_idle=True)
        sink.write([b"{}"] * 1_234)
        sink.flush()
    found = describe_pipeline(config.state, config)
    assert found["lag"] == {"records": 1_234, "labels": 0}
    assert "1,234 more to be read" in format_description(found)


def test_inspect_shows_how_many_bytes_of_a_file_are_left(tmp_path, make_records):
    path = tmp_path / "records.jsonl"
    lines = [json.dumps(record).encode() + b"\n" for record in make_records(30)[0]]
    path.write_bytes(b"".join(lines))
    tables = {"pipeline": {"name": "test"}, "source": {"connector": "files", "path": path.name}}
    config = parse(tables, tmp_path, environment={})
    run(config, until_idle=True)
    path.write_bytes(b"".join(lines) + b" " * 1_233 + b"\n")
    found = describe_pipeline(config.state, config)
    assert found["lag"]["records"] == 1_234
    assert "1,234 more bytes to be read" in format_description(found)


def test_inspect_does_not_say_of_a_learner_that_it_predicts(tmp_path, make_records):
    config = written(tmp_path, make_records(20)[0])
    run(config, until_idle=True)
    found = describe_pipeline(config.state)
    assert not found["distributed"]
    said = format_description(found)
    assert "records          continues after" in said
    assert "records                 20  records predicted" in said
    said = format_description(found | {"distributed": True})
    assert "scoring log      continues after" in said
    assert "records                 20  requested records received by the learner" in said
