"""Validation rules for labels on a state that was created before these rules."""

import json

import pytest

from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.errors import ConfigurationError
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import parse

NFC, NFD = "caf\u00e9", "cafe\u0301"


def config(folder, **schema):
    tables = {
        "pipeline": {"name": "test", "batch_records": 10, "batch_labels": 10},
        "schema": {"numeric": ["a"]} | schema,
        "source": {"connector": "files", "path": "records.jsonl"},
        "labels": {"connector": "files", "path": "labels.jsonl"},
        "committee": {"n_estimators": 2},
    }
    return parse(tables, folder, environment={})


@pytest.fixture
def grow(tmp_path):
    """Return a function that adds 40 records, and labels for them that are given in turn."""
    n = 0

    def more(*labels):
        nonlocal n
        with (tmp_path / "records.jsonl").open("a") as records:
            records.writelines(f'{{"id": {id}, "a": {id % 2}}}\n' for id in range(n, n + 40))
        with (tmp_path / "labels.jsonl").open("a") as file:
            for id in range(n, n + 40):
                file.write(json.dumps({"id": id, "label": labels[id % len(labels)]}) + "\n")
        n += 40

    return more


def reasons(folder):
    source = SqliteSource(folder / "state" / "log.db", "dead_letters")
    found = [json.loads(message.payload)["reason"] for message in source.poll(1_000)]
    source.close()
    return found


@pytest.mark.slow
def test_classes_may_change_and_say_from_which_batch_on(tmp_path, grow):
    grow("left", "right", "Left")
    run(config(tmp_path), until_idle=True)
    assert reasons(tmp_path) == []
    grow("left", "right", "Left")
    run(config(tmp_path, classes=["left", "right"]), until_idle=True)
    refused = reasons(tmp_path)
    assert set(refused) == {"unknown_class"}
    grow("up")
    run(config(tmp_path, classes=["left", "right", "up"]), until_idle=True)
    assert reasons(tmp_path) == refused
    for checkpoint in (tmp_path / "state" / "checkpoints").iterdir():
        checkpoint.unlink()
    now = config(tmp_path, classes=["left", "right", "up"])
    run(now, until_idle=True)
    assert "bit for bit" in verify_replay(now)


def test_classes_of_another_kind_than_the_labels_before_are_refused(tmp_path, grow):
    grow(1, 2)
    run(config(tmp_path), until_idle=True)
    with pytest.raises(ConfigurationError, match="'left'"):
        run(config(tmp_path, classes=["left"]), until_idle=True)
