"""Failures between a pipeline and Label Studio lose and duplicate nothing."""

import os
import signal
from collections import Counter

import pytest

from streamboost.connectors.sqlite.stream import SqliteSink
from streamboost.errors import UnavailableError
from streamboost.pipelines.label_studio import bridge as label_studio_bridge
from streamboost.pipelines.label_studio import run as label_studio
from streamboost.pipelines.label_studio.tasks import TaskStore
from streamboost.pipelines.shutdown import StopToken
from tests.label_studio.front import LEGACY
from tests.pipelines.label_studio.bridged import ask, labels, turn


@pytest.mark.parametrize("fault", ["lost", 500, 503])
def test_an_import_in_doubt_makes_each_task_once(config, studio, fault, monkeypatch):
    ask(config, "1", "2")
    studio.faults.append(("POST", studio.importing, fault))
    with pytest.raises(UnavailableError):
        turn(config)
    turn(config)
    made = {"1", "2"} if fault == "lost" else set()
    assert studio.by_record().keys() == made, "what may still come is not sent again"
    monkeypatch.setattr(label_studio_bridge, "PATIENCE", 0.0)
    turn(config)
    assert Counter(len(n) for n in studio.by_record().values()) == {1: 2}
    studio.annotate(studio.by_record()["2"][0], "right")
    turn(config)
    assert [label["id"] for label in labels(config)] == ["2"]


def test_a_task_that_came_long_after_its_import_was_given_up_is_removed(config, studio):
    ask(config, "1")
    studio.faults.append(("POST", studio.importing, "lost"))
    with pytest.raises(UnavailableError):
        turn(config)
    ((number,),) = studio.by_record().values()
    late = studio.add({"data": dict(studio.tasks[number]["data"])})
    studio.annotate(late, "left")
    turn(config)
    assert studio.by_record() == {"1": [late]}, "the one that somebody worked on stays"
    assert [label["id"] for label in labels(config)] == ["1"]


def test_an_edition_that_imports_in_its_own_time_is_waited_for(config, studio, monkeypatch):
    monkeypatch.setattr(
        label_studio_bridge.LabelStudioProject,
        "create_tasks",
        lambda self, tasks: [studio.add(task) for task in tasks][:0],
    )
    ask(config, "1")
    turn(config)
    turn(config)
    ((number,),) = studio.by_record().values()
    studio.annotate(number, "left")
    turn(config)
    assert [label["id"] for label in labels(config)] == ["1"]


def test_a_label_that_was_written_before_a_kill_is_not_written_again(config, studio, monkeypatch):
    ask(config, "1", "2")
    turn(config)
    for (number,) in studio.by_record().values():
        studio.annotate(number, "left")

    def killed(self, rows):
        rows = list(rows)
        if rows:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TaskStore, "mark_done", killed)
        with pytest.raises(KeyboardInterrupt):
            turn(config)
    assert [label["id"] for label in labels(config)] == ["1"]
    turn(config)
    turn(config)
    assert [label["id"] for label in labels(config)] == ["1", "2"]


def test_a_label_that_could_not_be_written_is_written_once(config, studio, monkeypatch):
    ask(config, "1")
    turn(config)
    studio.annotate(studio.by_record()["1"][0], "left")
    flush, failures = SqliteSink.flush, [UnavailableError("locked")]

    def flush_later(self):
        if self.stream == "labels" and failures:
            raise failures.pop()
        flush(self)

    class Patient(StopToken):
        def wait(self, seconds):
            self.requested = len(labels(config)) > 0

    monkeypatch.setattr(SqliteSink, "flush", flush_later)
    label_studio.run(config, Patient())
    turn(config)
    assert [label["id"] for label in labels(config)] == ["1"]


@pytest.mark.slow
def test_a_killed_process_is_taken_on_from_where_it_was(
    config, studio, tmp_path, streamboost_command
):
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nname = "asks"\n[schema]\nnumeric = ["a", "b"]\n'
        '[source]\nconnector = "sqlite"\nstream = "records"\n[monitor]\npublish_every = 0.0\n'
        f'[label_studio]\nurl = "{studio.url}"\nproject = {studio.project}\ntoken = "${{TOKEN}}"\n'
    )
    streamboost_command.environment["TOKEN"] = LEGACY
    ask(config, "1", "2", "3")
    process = streamboost_command.start("label-studio", "p.toml")
    studio.faults.append(("POST", studio.importing, lambda: os.kill(process.pid, signal.SIGKILL)))
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert LEGACY not in err
    assert studio.by_record().keys() == {"1", "2", "3"}
    studio.annotate(studio.by_record()["3"][0], "right")
    turn(config)
    assert Counter(len(n) for n in studio.by_record().values()) == {1: 3}
    assert [label["id"] for label in labels(config)] == ["3"]
