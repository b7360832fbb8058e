"""A full disk: no checkpoint is taken, and nothing else is lost."""

import json
import signal
import threading
import time
from contextlib import closing

import pytest

from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.errors import StateError, UnavailableError
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.monitoring.metrics import Metrics
from streamboost.pipelines.state.checkpoints import Checkpoints
from streamboost.pipelines.state.folder import read_or_create_token
from tests.pipelines.watching import committing
from tests.ports import free_ports
from tests.waiting import until


def config(folder, make_records, sections=None, **pipeline):
    records, _ = make_records(200)
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "records.jsonl").write_text(text)
    tables = {
        "pipeline": {"name": "test", "batch_records": 10, "checkpoint_every": 2} | pipeline,
        "source": {"connector": "files", "path": "records.jsonl"},
    }
    return parse(tables | (sections or {}), folder, environment={})


def ids(folder):
    with closing(SqliteSource(folder / "log.db", "predictions")) as source:
        return [json.loads(message.payload)["id"] for message in source.poll(1_000_000)]


def test_without_room_for_checkpoints_it_goes_on_says_so_and_takes_them_again_later(
    tmp_path, small_disk, fill, make_records, caplog
):
    made, state = config(tmp_path, make_records), tmp_path / "state"
    state.mkdir()
    (state / "checkpoints").symlink_to(small_disk)
    taken = []

    def watch(effects):
        taken.append(max((int(p.name) for p in small_disk.glob("[0-9]*")), default=0))
        if effects.sequence == 5:
            fill(small_disk)
        elif effects.sequence == 15:
            trouble = describe_pipeline(state)["last_error"]
            assert (trouble["sequence"], "No space left" in trouble["text"]) == (14, True)
            (small_disk / "filler").unlink()

    assert run(made, until_idle=True, observers=[committing(watch)]) == 20
    assert taken == [0, 0, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 16, 16, 18, 18]
    said = [r.message for r in caplog.records if r.message.startswith("no checkpoint of batch")]
    assert [line.split(":")[0].split()[-1] for line in said] == ["6", "8", "10", "12", "14"]
    assert ids(state) == [str(i) for i in range(200)]
    assert "bit for bit" in verify_replay(made)


def test_a_missing_checkpoint_is_a_metric_until_one_is_taken(world, small_disk, fill):
    loop = world.loop
    loop.checkpoints = Checkpoints(small_disk)
    filler, found = fill(small_disk), []
    for _ in range(2):
        loop.try_checkpoint()
        text = Metrics(loop).expose().decode()
        found += [line for line in text.splitlines() if line.startswith("streamboost_checkpoint_f")]
        filler.unlink(missing_ok=True)
    assert found == ["streamboost_checkpoint_failed 1.0", "streamboost_checkpoint_failed 0.0"]


@pytest.mark.slow
def test_without_room_for_the_log_it_waits_and_then_goes_on(
    tmp_path, small_disk, fill, make_records, caplog
):
    elsewhere = {"predictions": {"connector": "files", "path": "predictions.jsonl"}}
    made = config(tmp_path, make_records, elsewhere, state="small")
    thread = threading.Thread(
        target=run,
        args=(made,),
        kwargs={
            "until_idle": True,
            "observers": [committing(lambda effects: effects.sequence == 5 and fill(small_disk))],
        },
    )
    thread.start()
    deadline = time.monotonic() + 60
    while "log.db cannot grow" not in caplog.text:
        assert time.monotonic() < deadline, caplog.text
    (small_disk / "filler").unlink()
    thread.join(60)
    lines = (tmp_path / "predictions.jsonl").read_text().splitlines()
    predicted = [json.loads(line)["id"] for line in lines]
    assert predicted == [str(i) for i in range(200)], "no attempt writes again what lies elsewhere"
    assert "bit for bit" in verify_replay(made)


PIPELINE = """
[pipeline]
name = "test"
state = "small"
batch_records = 10
checkpoint_every = 3
[source]
connector = "files"
path = "records.jsonl"
follow = true
[monitor]
port = {port}
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_full_disk_keeps_no_run_from_starting(
    tmp_path, small_disk, fill, make_records, streamboost_command, end
):
    (port,) = free_ports(1)
    lines = [json.dumps(record) + "\n" for record in make_records(200)[0]]
    (tmp_path / "records.jsonl").write_text("".join(lines[:100]))
    (tmp_path / "pipeline.toml").write_text(PIPELINE.format(port=port))
    process = streamboost_command.start("run")
    until(lambda: process.poll() is not None or len(ids(small_disk)) == 100)
    process.send_signal(end)
    process.communicate(timeout=60)
    filler = fill(small_disk)
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write("".join(lines[100:]))
    process = streamboost_command.start("run", "--until-idle")
    said = []
    while not any("log.db cannot grow" in line for line in said):
        said.append(process.stderr.readline())
        assert said[-1], "".join(said)
    try:
        stands = describe_pipeline(small_disk)["running"]
    except UnavailableError as error:
        # After a kill, SQLite must create the log's shared-memory file again to open the log. The
        # status may have used the space of that file. Then reading fails with this error.
        stands = end == signal.SIGKILL and "make room on its disk" in str(error)
    assert stands
    filler.unlink()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert ids(small_disk) == [str(i) for i in range(200)]


def test_a_log_that_was_closed_can_be_read_on_a_full_disk(small_disk, fill):
    path = small_disk / "log.db"
    with closing(SqliteSink(path, "records")) as sink:
        sink.write([b"{}"] * 3)
        sink.flush()
    filler = fill(small_disk)
    with closing(SqliteSource(path, "records")) as source, closing(SqliteSink(path, "x")) as sink:
        assert len(source.poll(10)) == 3
        sink.write([b"{}"])
        with pytest.raises(
            UnavailableError, match=r"log\.db cannot grow .*: make room on its disk"
        ):
            sink.flush()
        assert len(source.poll(10)) == 0
        filler.unlink()
        sink.flush()
        assert source.lag() == 0


def test_without_room_for_a_token_no_empty_one_is_left(small_disk, fill):
    filler = fill(small_disk)
    with pytest.raises(StateError, match=r"token cannot be written: .* make room on its disk"):
        read_or_create_token(small_disk / "token")
    filler.unlink()
    assert len(read_or_create_token(small_disk / "token")) > 40
