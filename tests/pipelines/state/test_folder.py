import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from streamboost.connectors.base import write_and_flush
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.sqlite.stream import SqliteSink
from streamboost.errors import StateError
from streamboost.pipelines.config.compatibility import (
    pipeline_name,
    store_config,
    verify_compatibility,
)
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.state.folder import State


@pytest.fixture
def state(tmp_path):
    state = State(tmp_path / "state")
    with state.hold_lock():
        yield state


def config(tmp_path, **pipeline):
    tables = {
        "pipeline": {"name": "test"} | pipeline,
        "source": {"connector": "files", "path": "${SECRET}"},
    }
    return parse(tables, tmp_path, environment={"SECRET": "hunter2"})


def hold(path, held, release):
    with State(path).hold_lock():
        held.set()
        release.wait(60)


@pytest.mark.slow
def test_a_state_that_another_process_holds_is_refused_with_its_number(tmp_path):
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    process = context.Process(target=hold, args=(tmp_path / "state", held, release))
    process.start()
    assert held.wait(60)
    state = State(tmp_path / "state")
    assert state.is_running()
    with pytest.raises(StateError, match=f"process {process.pid} is running on this state"):
        state.hold_lock().__enter__()
    release.set()
    process.join(60)
    with state.hold_lock():
        assert State(tmp_path / "state").is_running()
    assert not state.is_running()


@pytest.mark.slow
def test_no_run_is_refused_because_others_look_whether_one_is_running(tmp_path):
    state, ended = State(tmp_path), threading.Event()

    def look():
        while not ended.is_set():
            State(tmp_path).is_running()

    with ThreadPoolExecutor(3) as pool:
        looking = [pool.submit(look) for _ in range(3)]
        try:
            for _ in range(500):
                with state.hold_lock():
                    pass
        finally:
            ended.set()
        for one in looking:
            one.result(60)


def test_a_changed_configuration_is_refused_with_what_changed(state, tmp_path):
    store_config(config(tmp_path), state, state_has_begun=False)
    store_config(config(tmp_path, batch_records=7), state, state_has_begun=True)
    with pytest.raises(StateError, match=r"\[pipeline\] seed was 0 and is 7.*Undo the change"):
        store_config(config(tmp_path, seed=7), state, state_has_begun=True)


def test_what_changed_is_said_as_the_file_has_it_with_what_may_change(state, tmp_path):
    def made(**sections):
        tables = {"pipeline": {"name": "test"}, "source": {"connector": "files", "path": "a"}}
        return parse(tables | sections, tmp_path, environment={})

    store_config(made(), state, state_has_begun=False)
    asked = {"connector": "sqlite", "stream": "labels", "path": "labels.db"}
    with pytest.raises(StateError) as told:
        store_config(
            made(query={"strategy": "random", "budget": 0.3}, labels=asked),
            state,
            state_has_begun=True,
        )
    said = str(told.value)
    assert '[query] strategy was "margin" and is "random"; [query] budget was 0.05 and' in said
    assert '[labels] path was not set and is "labels.db"' in said
    assert "On an existing state these may change: [pipeline] batch_labels batch_records" in said


def test_a_state_goes_along_when_its_folder_or_the_whole_project_is_moved(tmp_path):
    def made(folder, **keys):
        tables = {
            "pipeline": {"name": "test"} | keys,
            "source": {"connector": "files", "path": "a"},
        }
        return parse(tables, folder, environment={})

    State(tmp_path / "one" / "state").path.mkdir(parents=True)
    store_config(made(tmp_path / "one"), State(tmp_path / "one" / "state"), state_has_begun=False)
    (tmp_path / "one").rename(tmp_path / "two")
    assert verify_compatibility(
        made(tmp_path / "two"), State(tmp_path / "two" / "state"), state_has_begun=True
    )
    (tmp_path / "two" / "state").rename(tmp_path / "kept")
    assert verify_compatibility(
        made(tmp_path / "two", state="../kept"), State(tmp_path / "kept"), state_has_begun=True
    )


def test_before_the_first_batch_the_configuration_may_change_and_the_schema_is_found_anew(
    state, tmp_path
):
    store_config(config(tmp_path), state, state_has_begun=False)
    state.write_schema(Schema(numeric=["a"]))
    store_config(config(tmp_path), state, state_has_begun=False)
    assert state.schema() == Schema(numeric=["a"])
    store_config(config(tmp_path, seed=7), state, state_has_begun=False)
    assert state.schema() is None
    assert pipeline_name(state) == "test"


def test_a_changed_value_of_the_environment_is_refused_and_not_shown(state, tmp_path):
    def made(secret):
        tables = {
            "pipeline": {"name": "test"},
            "source": {"connector": "files", "path": "${SECRET}/records.jsonl"},
        }
        return parse(tables, tmp_path, environment={"SECRET": secret})

    store_config(made("hunter2"), state, state_has_begun=False)
    store_config(made("hunter2"), state, state_has_begun=True)
    with pytest.raises(StateError, match=r"variable it names \(SECRET\) has another value") as told:
        store_config(made("hunter3"), state, state_has_begun=True)
    assert "hunter" not in str(told.value)


def test_a_begun_state_without_its_fingerprint_is_refused_with_what_to_do(state, tmp_path):
    store_config(config(tmp_path), state, state_has_begun=False)
    (state.path / "fingerprint").unlink()
    remedy = r"fingerprint is missing.*from a copy.*To start with an empty state"
    with pytest.raises(StateError, match=remedy):
        store_config(config(tmp_path), state, state_has_begun=True)


def test_without_the_configuration_kept_a_changed_one_is_refused(state, tmp_path):
    store_config(config(tmp_path), state, state_has_begun=False)
    state.config.unlink()
    with pytest.raises(StateError, match="the changes are unknown"):
        store_config(config(tmp_path, seed=7), state, state_has_begun=True)
    store_config(config(tmp_path), state, state_has_begun=True)
    assert pipeline_name(state) == "test"


def test_a_state_that_is_no_folder_is_refused_with_the_mend(tmp_path):
    (tmp_path / "state").write_text("")
    with pytest.raises(StateError, match=r"cannot be used.*File exists.*set \[pipeline\] state"):
        State(tmp_path / "state").hold_lock().__enter__()


def test_what_cannot_be_read_or_written_is_a_state_error(state, tmp_path):
    attempts = {
        "fingerprint": lambda: store_config(config(tmp_path), state, state_has_begun=False),
        "config.toml": lambda: store_config(config(tmp_path), state, state_has_begun=False),
        "schema.json": lambda: state.write_schema(Schema(numeric=["a"])),
    }
    for name, attempt in attempts.items():
        (state.path / name).mkdir()
        with pytest.raises(StateError, match=f"cannot be used.*{name}.*check that it is a folder"):
            attempt()
        (state.path / name).rmdir()


def test_a_folder_that_may_only_be_read_is_refused_with_the_mend(
    open_folder, only_reading, tmp_path
):
    path = open_folder / "state"
    with State(path).hold_lock():
        store_config(config(tmp_path), State(path), state_has_begun=False)
    with only_reading(open_folder), pytest.raises(StateError, match=r"cannot be used.*denied"):
        State(path).hold_lock().__enter__()
    with only_reading(open_folder):
        assert pipeline_name(State(path)) == "test"
        assert not State(path).is_running()


def test_small_files_are_made_durable_with_their_names(state, tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_ino))
    state.write_schema(Schema(numeric=["a"]))
    assert synced == [(state.path / "schema.json").stat().st_ino, state.path.stat().st_ino]


def test_no_secret_is_stored(state, tmp_path):
    store_config(config(tmp_path), state, state_has_begun=False)
    stored = b"".join(path.read_bytes() for path in state.path.iterdir())
    assert b"hunter2" not in stored
    assert b"${SECRET}" in stored


def test_a_folder_that_is_made_is_its_owners_alone_and_one_open_to_others_is_named(caplog):
    with TemporaryDirectory() as name:
        above = Path(name)
        with State(above / "new" / "state").hold_lock():
            assert (above / "new" / "state").stat().st_mode & 0o777 == 0o700
        (above / "shared").mkdir(mode=0o755)
        with State(above / "shared").hold_lock():
            assert (above / "shared").stat().st_mode & 0o777 == 0o755, "as whoever made it wants it"
        assert not caplog.messages, "nobody else may enter the folder above"
        above.chmod(0o755)
        with State(above / "new" / "state").hold_lock(), State(above / "shared").hold_lock():
            pass
    (said,) = caplog.messages
    assert "shared and its records are accessible to other users of this machine" in said


def test_the_folder_of_a_log_that_is_written_before_the_first_run_is_its_owners_alone(tmp_path):
    with closing(SqliteSink(tmp_path / "state" / "log.db", "records")) as sink:
        write_and_flush(sink, [b"{}"])
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
