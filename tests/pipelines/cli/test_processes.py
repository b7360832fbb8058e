"""The command line as separate processes: damaged files, graceful stops, kills."""

import json
import signal
import sys
import time
from contextlib import closing

import numpy as np
import pytest

from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.connectors.sqlite.transaction import SqliteTransaction
from streamboost.pipelines.cli.options import stop_on_signals
from streamboost.pipelines.status.reader import StatusReader

PIPELINE = """
[pipeline]
name = "test"
batch_records = 20
batch_labels = 20
[source]
connector = "files"
path = "records.jsonl"
[labels]
connector = "files"
path = "labels.jsonl"
[committee]
n_estimators = 5
[schedule]
growth = 1.3
"""


def lines(path, messages):
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))


def stream(folder, name):
    with closing(SqliteSource(folder / "state" / "log.db", name)) as source:
        return [json.loads(message.payload) for message in source.poll(1_000_000)]


def wait_until(condition, process, seconds=60):
    """Wait until `condition()`, while `process` runs."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.005)


@pytest.fixture
def prepared(tmp_path, make_records):
    """Return a function that fills a folder with a pipeline file, records and labels."""

    def prepare(folder, n=6_000):
        folder.mkdir(exist_ok=True)
        records, truth = make_records(n)
        (folder / "p.toml").write_text(PIPELINE)
        lines(folder / "records.jsonl", records)
        labels = [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]
        lines(folder / "labels.jsonl", labels[:600])
        return records

    return prepare


@pytest.mark.slow
def test_a_file_with_damaged_lines_is_read_to_its_end(streamboost_command, tmp_path, make_records):
    records, _ = make_records(1_400)
    good = [json.dumps(record) for record in records]
    damage = {
        "bad_json": '{"id": "x", "a": ',
        "missing_id": '{"a": 0.5, "b": 0.5}',
        "wrong_type": '{"id": [1], "a": 0.5, "b": 0.5}',
        "bad_json ": '{"id": "x", "a": NaN, "b": 0.5}',
        "too_large": '{"id": "x", "a": 0.5, "pad": "' + "x" * 5_000_000 + '"}',
        "empty": "",
        "duplicate_id": None,
    }
    expected, written = [], list(good)
    rng = np.random.default_rng(0)
    for place in sorted(rng.choice(np.arange(1, 1_400), size=14, replace=False))[::-1]:
        reason, line = list(damage.items())[len(expected) % len(damage)]
        written.insert(place, good[place - 1] if line is None else line)
        expected.append(reason.strip())
    (tmp_path / "records.jsonl").write_text("\n".join(written) + "\n")
    (tmp_path / "labels.jsonl").write_text("")
    (tmp_path / "p.toml").write_text(PIPELINE)

    _, err = streamboost_command("run", "p.toml", "--until-idle")

    assert "1,400 records in this run" in err
    assert "14 dead letters" in err
    assert err.count("the first dead letter (bad_json)") == 1
    dead = stream(tmp_path, "dead_letters")
    assert [letter["reason"] for letter in dead] == expected[::-1]
    assert all(letter["detail"] for letter in dead)
    too_large = next(letter for letter in dead if letter["reason"] == "too_large")
    assert too_large["size"] > 5_000_000
    assert len(too_large["payload"]) == 65_536
    ids = [prediction["id"] for prediction in stream(tmp_path, "predictions")]
    assert ids == [record["id"] for record in records]


@pytest.mark.slow
def test_a_run_that_is_stopped_goes_on_as_if_it_never_had_been(
    streamboost_command, tmp_path, prepared
):
    records = prepared(tmp_path)
    process = streamboost_command.start("run", "p.toml")
    log = tmp_path / "state" / "log.db"
    wait_until(lambda: log.exists() and committed(tmp_path) >= 5, process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    stopped_at = committed(tmp_path)
    assert 5 <= stopped_at < 300, "it was to be stopped in the middle"
    assert f"stopped after batch {stopped_at}" in err

    streamboost_command("run", "p.toml", "--until-idle")
    prepared(tmp_path / "steady")
    streamboost_command("run", "steady/p.toml", "--until-idle")

    ids = [prediction["id"] for prediction in stream(tmp_path, "predictions")]
    assert ids == [record["id"] for record in records]
    for name in ("predictions", "requests"):
        assert stream(tmp_path, name) == stream(tmp_path / "steady", name)
    digests = [
        [json.loads(entry)["digest"] for entry in journal(folder)]
        for folder in (tmp_path, tmp_path / "steady")
    ]
    assert digests[0] == digests[1]


SECRET = """
[pipeline]
name = "test"
[source]
connector = "files"
path = "${SECRET}/records.jsonl"
[predictions]
connector = "files"
path = "${SECRET}/predictions.jsonl"
[requests]
connector = "sqlite"
path = "${SECRET}/log.db"
stream = "${EMPTY}requests"
"""


@pytest.mark.parametrize("secret", ['/tmp/it\'s \\ "hunter2"/', "../hunter2"])
def test_nothing_that_is_said_shows_a_value_of_the_environment(
    streamboost_command, tmp_path, secret
):
    (tmp_path / "p.toml").write_text(SECRET)
    streamboost_command.environment |= {"SECRET": secret, "EMPTY": ""}
    said = [
        *streamboost_command("check", "p.toml", code=1),
        *streamboost_command("run", "p.toml", "--until-idle", code=1),
    ]
    (tmp_path / "p.toml").write_text(SECRET.replace("[requests]", "[request]"))
    said += streamboost_command("check", "p.toml", code=2)
    assert "there is no file" in said[0]
    assert "there is no file" in said[3]
    assert "hunter2" not in "".join(said)
    assert "Traceback" not in "".join(said)
    assert "${SECRET}" in said[0]
    assert "${SECRET}" in said[3]


@pytest.mark.slow
def test_a_changed_value_of_the_environment_is_not_gone_on_with(
    streamboost_command, tmp_path, make_records
):
    (tmp_path / "p.toml").write_text(PIPELINE.replace('"records', '"${DIR}/records'))
    (tmp_path / "labels.jsonl").write_text("")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        lines(tmp_path / name / "records.jsonl", make_records(30)[0])
    streamboost_command.environment["DIR"] = "one"
    streamboost_command("run", "p.toml", "--until-idle")
    streamboost_command.environment["DIR"] = "two"
    _, err = streamboost_command("run", "p.toml", "--until-idle", code=1)
    assert "an environment variable it names (DIR) has another value" in err


@pytest.mark.slow
def test_a_second_process_on_the_same_state_is_refused(streamboost_command, tmp_path, prepared):
    prepared(tmp_path, n=40)
    process = streamboost_command.start("run", "p.toml")
    wait_until(lambda: (tmp_path / "state" / "log.db").exists(), process)
    _, err = streamboost_command("run", "p.toml", code=1)
    assert f"process {process.pid} is running on this state" in err
    out, _ = streamboost_command("inspect", "state", "--json")
    assert json.loads(out)["running"] is True
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


@pytest.mark.slow
def test_further_signals_are_ignored_while_it_stops(streamboost_command, tmp_path, prepared):
    prepared(tmp_path)
    process = streamboost_command.start("run", "p.toml")
    log = tmp_path / "state" / "log.db"
    wait_until(lambda: log.exists() and committed(tmp_path) >= 2, process)
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.002)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert err.count("stopping after this batch") == 1
    assert "Traceback" not in err
    assert list((tmp_path / "state" / "checkpoints").iterdir())


@pytest.fixture
def handlers():
    """Put back what happens on signals."""
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in kinds}
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_two_signals_at_once_stop_it_without_a_word_about_the_second():
    """A worker of `run --workers` hears of Ctrl-C from the terminal and from its parent."""
    both = {signal.SIGINT, signal.SIGTERM}
    stop = stop_on_signals(b"")
    signal.pthread_sigmask(signal.SIG_BLOCK, both)
    for number in both:
        signal.raise_signal(number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
    assert stop.requested


@pytest.mark.usefixtures("handlers")
def test_a_signal_that_comes_before_the_first_is_answered_is_ignored(capfd):
    stop = stop_on_signals(b"stopping\n")

    def raise_another(frame, event, arg):
        """Raise a signal before the first line of what handles the one before."""
        if frame.f_code.co_name == "ask":
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)

    before = sys.gettrace()
    sys.settrace(raise_another)
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        sys.settrace(before)
    assert stop.requested
    assert capfd.readouterr().err == "stopping\n"


@pytest.mark.slow
def test_it_waits_for_the_first_records_to_find_the_schema(streamboost_command, tmp_path):
    (tmp_path / "p.toml").write_text(
        PIPELINE.replace('labels.jsonl"', 'labels.jsonl"\nfollow = true')
    )
    for name in ("records.jsonl", "labels.jsonl"):
        (tmp_path / name).write_text("")
    process = streamboost_command.start("run", "p.toml")
    wait_until(lambda: (tmp_path / "state" / "config.toml").exists(), process)
    lines(tmp_path / "more", [{"id": 1, "a": 0.5, "text": "x"}])
    with (tmp_path / "records.jsonl").open("a") as file:
        file.write((tmp_path / "more").read_text())
    wait_until(lambda: (tmp_path / "state" / "log.db").exists(), process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "2 fields to learn from" in err
    assert [p["id"] for p in stream(tmp_path, "predictions")] == ["1"]
    fields = json.loads((tmp_path / "state" / "schema.json").read_text())["fields"]
    assert dict(fields)["a"] == "number"


def committed(folder):
    with closing(SqliteTransaction(folder / "state" / "log.db", "test")) as transaction:
        found = transaction.last_committed_batch()
        return found.sequence if found else 0


def journal(folder):
    with closing(SqliteTransaction(folder / "state" / "log.db", "test")) as transaction:
        return [entry for _, entry in transaction.read_journal()]


@pytest.mark.slow
def test_a_killed_pipeline_shows_the_open_requests_exactly_when_it_runs_again(
    streamboost_command, tmp_path, prepared
):
    records = prepared(tmp_path, 3_000)
    for record in records:
        record["text"] = f"This is record {record['id']}."
    lines(tmp_path / "records.jsonl", records)
    reader = StatusReader(tmp_path / "state")
    process = streamboost_command.start("run", "p.toml")
    wait_until(lambda: reader.requests() and committed(tmp_path) >= 20, process)
    process.kill()
    process.communicate()
    streamboost_command("run", "p.toml", "--until-idle")
    asked = {request["id"]: request for request in stream(tmp_path, "requests")}
    answered = {str(i) for i in range(600)}
    shown = {request["id"]: request for request in reader.requests()}
    reader.close()
    assert shown.keys() == asked.keys() - answered != set()
    for id, request in shown.items():
        assert request.pop("fields") == {}
        assert all(one["label"] in {"left", "right"} for one in request.pop("near", ()))
        assert request["features"]["text"] == f"This is record {id}."
        assert request == asked[id]
