"""Rotated source files: no record is skipped, and a replay gives the same bits."""

import json
import os
import shutil
from contextlib import closing

import pytest

from streamboost.connectors.files.open import file_source
from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.errors import ConnectorError
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import parse
from tests.pipelines.watching import committing

N_OLD, N_NEW = 100, 300


def config(folder, **pipeline):
    tables = {
        "pipeline": {"name": "test", "batch_records": 30, "batch_labels": 20} | pipeline,
        "source": {"connector": "files", "path": "records.jsonl"},
        "labels": {"connector": "files", "path": "labels.jsonl"},
        "predictions": {"connector": "files", "path": "predictions.jsonl"},
        "committee": {"n_estimators": 2},
    }
    return parse(tables, folder, environment={})


def write(path, messages):
    with path.open("w") as file:
        file.writelines(json.dumps(message) + "\n" for message in messages)


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def rename(path):
    path.rename(path.with_name(f"{path.name}.1"))


def copy(path):
    shutil.copy(path, path.with_name(f"{path.name}.1"))


@pytest.fixture
def files(tmp_path, make_records):
    """Write the first or all further records, with their labels."""
    records, truth = make_records(N_OLD + N_NEW)
    labels = [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]

    def put(part):
        write(tmp_path / "records.jsonl", records[part])
        write(tmp_path / "labels.jsonl", labels[part])

    put(slice(N_OLD))
    return lambda: put(slice(N_OLD, None))


def ids(folder):
    return [prediction["id"] for prediction in read(folder / "predictions.jsonl")]


def dead_letters(folder):
    with closing(SqliteSource(folder / "state" / "log.db", "dead_letters")) as source:
        return source.poll(1_000)


@pytest.mark.parametrize("replaced", ["while stopped", "between two batches", "after a kill"])
@pytest.mark.parametrize("rotate", [rename, copy])
@pytest.mark.quick_once
def test_nothing_of_a_longer_file_in_the_place_of_another_is_skipped(
    tmp_path, files, rotate, replaced
):
    def replace(effects=None):
        if effects is None or effects.sequence == 2:
            rotate(tmp_path / "records.jsonl")
            rotate(tmp_path / "labels.jsonl")
            files()
            if replaced == "after a kill":
                raise KeyboardInterrupt

    taken = config(tmp_path, checkpoint_every=3)
    if replaced == "while stopped":
        run(taken, until_idle=True)
        assert describe_pipeline(tmp_path / "state", taken)["lag"] == {"records": 0, "labels": 0}
        replace()
    else:
        try:
            run(taken, until_idle=True, observers=[committing(replace)])
        except KeyboardInterrupt:
            shutil.rmtree(tmp_path / "state" / "checkpoints", ignore_errors=True)
    run(taken, until_idle=True)
    assert ids(tmp_path) == [str(n) for n in range(N_OLD + N_NEW)]
    assert dead_letters(tmp_path) == []
    found = describe_pipeline(tmp_path / "state", taken)
    assert found["lag"] == {"records": 0, "labels": 0}
    assert found["checkpoint"]["join"]["labels"] == N_OLD + N_NEW
    assert "bit for bit" in verify_replay(taken)


@pytest.mark.parametrize("on_data_loss", ["fail", "continue"])
@pytest.mark.quick_once
def test_a_file_that_is_gone_ends_the_run_or_is_counted(tmp_path, files, on_data_loss):
    taken = config(tmp_path, on_data_loss=on_data_loss)
    run(taken, until_idle=True)
    old = {name: read(tmp_path / f"{name}.jsonl") for name in ("records", "labels")}
    files()  # in place of the old ones, of which nothing is left
    if on_data_loss == "fail":
        with pytest.raises(ConnectorError, match=r"records\.jsonl was truncated, rotated or repl"):
            run(taken, until_idle=True)
        assert ids(tmp_path) == [str(n) for n in range(N_OLD)]
        return
    run(taken, until_idle=True)
    assert ids(tmp_path) == [str(n) for n in range(N_OLD + N_NEW)]
    assert describe_pipeline(tmp_path / "state")["checkpoint"]["deleted_unread"] == 2
    for name in ("records", "labels"):  # next to the new files, the old files can be replayed
        write(tmp_path / f"{name}.jsonl.1", old[name])
    assert "bit for bit" in verify_replay(taken)


def test_a_replay_over_lost_files_goes_on_after_what_was_committed(tmp_path, files):
    taken = config(tmp_path, on_data_loss="continue", checkpoint_every=2)
    run(taken, until_idle=True)
    rename(tmp_path / "records.jsonl")
    rename(tmp_path / "labels.jsonl")
    files()
    run(taken, until_idle=True)
    # Without checkpoints the journal is replayed, but the first files are gone by now.
    shutil.rmtree(tmp_path / "state" / "checkpoints")
    for name in ("records", "labels"):
        os.unlink(tmp_path / f"{name}.jsonl.1")
    run(taken, until_idle=True)
    assert ids(tmp_path) == [str(n) for n in range(N_OLD + N_NEW)]


@pytest.mark.parametrize("removed", [False, True])
def test_predictions_are_never_committed_into_a_rotated_file(tmp_path, files, removed):
    place = tmp_path / "predictions.jsonl"

    def rotate(effects):
        if effects.sequence == 2:
            rename(place)
            if removed:
                os.unlink(f"{place}.1")

    run(config(tmp_path), until_idle=True, observers=[committing(rotate)])
    assert set(ids(tmp_path)) >= {str(n) for n in range(90, N_OLD)}
    if not removed:
        first = [prediction["id"] for prediction in read(tmp_path / "predictions.jsonl.1")]
        assert first + ids(tmp_path) == [str(n) for n in range(N_OLD)]


def test_a_line_finished_after_it_was_a_dead_letter_is_predicted(tmp_path, files):
    path = tmp_path / "records.jsonl"
    text = path.read_text()
    path.write_text(text[:-9])
    run(config(tmp_path), until_idle=True)
    assert ids(tmp_path) == [str(n) for n in range(N_OLD - 1)]
    path.write_text(text)
    run(config(tmp_path), until_idle=True)
    assert ids(tmp_path) == [str(n) for n in range(N_OLD)]
    assert "bit for bit" in verify_replay(config(tmp_path))


def test_a_device_in_place_of_a_file_ends_the_run(tmp_path, files):
    (tmp_path / "records.jsonl").unlink()
    (tmp_path / "records.jsonl").symlink_to("/dev/zero")
    with pytest.raises(ConnectorError, match="it is a device, not a regular file"):
        run(config(tmp_path), until_idle=True)


def dated(folder, day, records):
    """Write the file of a day in a folder of its own, and let the symbolic link lead there."""
    logs, path = folder / "logs", folder / "records.jsonl"
    logs.mkdir(exist_ok=True)
    write(logs / f"{day}.jsonl", records)
    os.utime(logs / f"{day}.jsonl", (1_000 + day, 1_000 + day))
    path.unlink(missing_ok=True)
    path.symlink_to(logs / f"{day}.jsonl")


def test_a_symbolic_link_may_lead_elsewhere_after_a_stop(tmp_path, make_records):
    records = make_records(60)[0]
    write(tmp_path / "labels.jsonl", [])
    dated(tmp_path, 1, records[:20])
    run(config(tmp_path), until_idle=True)
    with (tmp_path / "logs/1.jsonl").open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records[20:40])
    os.utime(tmp_path / "logs/1.jsonl", (1_001, 1_001))
    dated(tmp_path, 2, records[40:])
    run(config(tmp_path), until_idle=True)
    assert ids(tmp_path) == [record["id"] for record in records]
    assert "bit for bit" in verify_replay(config(tmp_path))


@pytest.mark.parametrize("on_data_loss", ["fail", "continue"])
def test_a_skipped_target_of_a_symbolic_link_is_a_gap(tmp_path, make_records, on_data_loss):
    records = make_records(60)[0]
    write(tmp_path / "labels.jsonl", [])
    dated(tmp_path, 1, records[:20])
    run(config(tmp_path), until_idle=True)
    for day in (2, 3):
        dated(tmp_path, day, records[20 * day - 20 : 20 * day])
    settings = config(tmp_path, on_data_loss=on_data_loss)
    if on_data_loss == "fail":
        with pytest.raises(ConnectorError, match=r"2\.jsonl in its folder came between"):
            run(settings, until_idle=True)
        return
    run(settings, until_idle=True)
    assert ids(tmp_path) == [record["id"] for record in records[:20] + records[40:]]


def test_a_file_that_is_not_there_yet_is_reported(tmp_path, caplog):
    path = tmp_path / "records.jsonl"
    with closing(file_source(path, follow=True)) as source:
        assert [source.poll(1), source.poll(1)] == [[], []]
        assert caplog.text.count(f"{path} is not there yet: waiting for the file") == 1
        write(path, [{"id": "1"}])
        assert len(source.poll(1)) == 1
