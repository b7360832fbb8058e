"""`streamboost learn`, `score` and `run --workers`: start and end of child processes."""

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from streamboost.connectors.kafka.admin import create_topics
from streamboost.connectors.kafka.cluster import KafkaCluster
from streamboost.pipelines.app import workers
from streamboost.pipelines.shutdown import StopToken
from tests.pipelines.command import Command
from tests.pipelines.scored_distributed import (
    Apart,
    assert_budgets_were_kept,
    assert_nothing_is_lost_or_doubled,
)
from tests.pipelines.stopping import stopped
from tests.waiting import until

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[3]

HERE = '[pipeline]\nname = "here"\n[source]\nconnector = "files"\npath = "r.jsonl"\n'
APART = (
    '[pipeline]\nname = "distributed"\nscoring = "distributed"\n[source]\nconnector = "kafka"\n'
    '[kafka]\nbootstrap_servers = "127.0.0.1:1"\n'
)


@pytest.mark.parametrize(
    ("file", "command", "told"),
    [
        (HERE, ["score", "p.toml"], 'scoring is "local": start it with `streamboost run`'),
        (HERE, ["learn", "p.toml"], 'scoring is "local": start it with `streamboost run`'),
        (HERE, ["run", "--workers", "2", "p.toml"], 'set scoring = "distributed"'),
        (APART, ["run", "p.toml"], "start `streamboost learn` and `streamboost score`, or"),
        (
            APART,
            ["run", "--workers", "2", "--rebuild", "p.toml"],
            "are options of `streamboost learn`",
        ),
    ],
)
def test_what_does_not_fit_the_file_is_refused(tmp_path, file, command, told):
    (tmp_path / "p.toml").write_text(file)
    _, err = Command(tmp_path)(*command, code=2)
    assert told in err


@pytest.mark.slow
def test_check_says_what_is_promised_and_who_spends(tmp_path, kafka_servers):
    world = Apart(tmp_path, kafka_servers, partitions=4)
    out, _ = Command(tmp_path)("check", "p.toml")
    assert "OK: p.toml is valid; start it with `streamboost run --workers 3 p.toml`" in out
    assert "up to 4 scorers" in out
    assert "in bursts of 6: partitions with more records request more labels" in out
    assert "exactly once: each scorer commits" in out
    world.close()


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--log-json"]])
def test_lines_of_several_say_whose_they_are(tmp_path, streamboost_command, options):
    (tmp_path / "p.toml").write_text(APART)
    process = streamboost_command.start("run", "--workers", "2", "p.toml", *options)
    unheard, said = {"learner", "scorer 1", "scorer 2"}, []
    while unheard:
        said.append(process.stderr.readline())
        assert said[-1], said
        who = json.loads(said[-1])["worker"] if options else said[-1].split(" | ")[0]
        if "no connection to 127.0.0.1:1 yet" in said[-1]:
            unheard.discard(who)
    rest = stopped(process)
    assert ("stopping after this batch" in rest) == (not options)


def test_one_that_does_not_end_is_killed_and_named(tmp_path, monkeypatch, caplog):
    stop, children = StopToken(), []

    def start(*arguments):
        children.append(begin(*arguments))
        children[-1].send_signal(signal.SIGSTOP)
        until(lambda: state_of(children[-1].pid).startswith("T"))
        if len(children) == 2:
            stop.request_stop()
        return children[-1]

    begin = workers._start_child
    monkeypatch.setattr(workers, "_start_child", start)
    monkeypatch.setattr(workers, "PATIENCE", 0.2)
    assert workers.run_workers(tmp_path / "p.toml", 1, [], stop) == 0
    assert [child.returncode for child in children] == [-signal.SIGKILL] * 2
    said = [record.message for record in caplog.records]
    assert [line.split(" has not ended within 0.2 s")[0] for line in said] == [
        "learner",
        "scorer 1",
    ]


@pytest.fixture
def running(tmp_path, kafka_servers):
    """A pipeline with two scorers as children of one process, and that process."""
    world = Apart(tmp_path, kafka_servers, partitions=2)
    command = [sys.executable, "-m", "streamboost.pipelines.cli", "run", "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen([*command, "p.toml"], cwd=tmp_path, env=environment, stderr=said)
    world.send(40)
    world.flush()
    yield world, process
    for child in [*children_of(process), process.pid]:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    process.wait()
    world.close()


def children_of(process):
    command = ["ps", "-o", "pid=", "--ppid", str(process.pid)]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in found.split()]


@pytest.mark.slow
def test_learner_and_scorers_run_as_children_and_one_that_is_killed_starts_again(running):
    world, process = running
    with world.answered():
        world.wait()
        children = children_of(process)
        assert len(children) == 3
        for child in children:
            os.kill(child, signal.SIGKILL)
        world.send(40)
        world.wait()
    assert len(children_of(process)) == 3
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert_nothing_is_lost_or_doubled(world)
    assert_budgets_were_kept(world)
    out, _ = Command(world.file.parent)("inspect", "p.toml")
    assert "scoring log, partition 0 continues after " in out


def state_of(pid):
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def is_alive(pid):
    return not state_of(pid).startswith("Z") and state_of(pid) != ""


@pytest.mark.slow
def test_children_end_when_the_one_that_started_them_is_killed(running):
    world, process = running
    world.wait()
    children = children_of(process)
    assert len(children) == 3
    process.kill()
    try:
        until(lambda: not any(map(is_alive, children)))
    finally:
        for child in filter(is_alive, children):
            os.kill(child, signal.SIGKILL)
    assert_nothing_is_lost_or_doubled(world)


@pytest.mark.slow
def test_one_that_fails_ends_all(running):
    world, process = running
    world.wait()
    with world.admin() as admin:
        admin.delete_topics([f"{world.name}.journal"])
    world.send(10)
    until(lambda: process.poll() is not None)
    assert process.returncode == 1
    assert children_of(process) == []


@pytest.mark.slow
def test_the_example_runs_with_three_workers(tmp_path, kafka_servers, monkeypatch):
    name, folder = f"distributed.{time.time_ns()}", ROOT / "examples" / "kafka"
    text = (folder / "distributed.toml").read_text(encoding="utf-8")
    file = tmp_path / "distributed.toml"
    file.write_text(text.replace('name = "distributed"', f'name = "{name}"'))
    monkeypatch.setenv("KAFKA_SERVERS", kafka_servers)
    cluster = KafkaCluster(kafka_servers)
    create_topics(cluster, {f"{name}.records": {"num_partitions": 3}})
    Command(tmp_path)("check", "--create-topics", "distributed.toml")
    command = [sys.executable, "-m", "streamboost.pipelines.cli", "run", "--workers", "3"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen([*command, file], env=environment, stderr=said)
    try:
        play = runpy.run_path(str(folder / "segments.py"))["play"]
        # How soon a committee reaches the scorers depends on the machine, that it does so does not.
        until(lambda: play(kafka_servers, name, n=400) > 0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        for child in [*children_of(process), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        process.wait()
