"""Outages of a pipeline that `serve` reports: killed, hanging and stopped processes."""

import json
import signal
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from serving import site_of
from waiting import until

from streamboost.pipelines.config.sections import NotifySection
from streamboost.pipelines.service import app, outages
from streamboost.pipelines.service.outages import OutageNotifier
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.status import liveness
from tests.pipelines.publishing import published
from tests.pipelines.stopping import stopped

PIPELINE = """
[pipeline]
name = "test"
poll_interval = 0.05
[source]
connector = "files"
path = "records.jsonl"
follow = true
[committee]
n_estimators = 2
[monitor]
publish_every = 0.2
[notify]
url = "${NOTIFY_URL}"
secret = "${NOTIFY_SECRET}"
events = ["down", "up"]
every = 0
"""


@pytest.fixture
def watch(tmp_path, reader, receiver):
    """Return a function that makes a notifier of the pipeline whose state is in `tmp_path`."""
    state, made = State(tmp_path), []

    def watch(clock=lambda: 0.0, **settings):
        section = NotifySection(url=receiver.url, **({"every": 0} | settings))
        served = SimpleNamespace(
            name="test",
            status=reader,
            is_running=state.is_running,
            config=SimpleNamespace(state=tmp_path),
        )
        made.append(OutageNotifier(served, section, clock))
        return made[-1]

    yield watch
    for one in made:
        one.webhook.close()


def publish(publisher):
    publisher._publish_status("running")
    until(lambda: publisher._writer.is_idle)


def revive(publisher, outage, *found):
    """Publish until a heartbeat is later than the file of the outage, and a check ends this."""

    def is_over():
        publish(publisher)
        for one in found:
            one.check()
        return not outage.exists()

    until(is_over)


def types(receiver):
    return [event["type"] for sent in receiver.messages for event in sent["events"]]


def test_a_process_that_ended_without_a_stop_is_reported_once_by_all_servers(
    watch, world, tmp_path, receiver, make_records
):
    state = State(tmp_path)
    first, second = watch(), watch()
    first.check()
    assert not (tmp_path / "outage").exists(), "a pipeline that never ran is not down"
    with published(world.loop, tmp_path) as publisher, state.hold_lock():
        world.feed(make_records(10)[0])
        world.run()
        until(lambda: publisher._writer.is_idle)
        first.check()
        assert not (tmp_path / "outage").exists()
    with published(world.loop, tmp_path) as publisher:  # as killed: no lock, and no state "stopped"
        publish(publisher)
        for one in (first, second, first, watch()):
            one.check()
        until(lambda: receiver.messages)
        (sent,) = receiver.messages
        assert sent["text"] == "test: the pipeline is down: process ended unexpectedly"
        assert sent["events"] == [{"type": "down", "error": "process ended unexpectedly"}]
        assert (sent["pipeline"], sent["sequence"]) == ("test", 1)
        with state.hold_lock():
            second.check()
            assert (tmp_path / "outage").exists(), "the new process has sent no heartbeat yet"
            revive(publisher, tmp_path / "outage", second, first)
        until(lambda: len(receiver.messages) == 2)
    assert types(receiver) == ["down", "up"]
    assert receiver.messages[1]["text"] == "test: the pipeline is up again"


def test_a_stop_is_no_outage_and_ends_one_without_a_message(watch, world, tmp_path, receiver):
    found = watch()
    with published(world.loop, tmp_path) as publisher:
        publish(publisher)
        found.check()
        assert (tmp_path / "outage").exists()
    found.check()
    assert not (tmp_path / "outage").exists()
    found.check()
    found.webhook.close()
    assert types(receiver) == ["down"]


def test_missing_heartbeats_are_reported_after_a_minute_of_the_server_s_own_time(
    watch, world, tmp_path, receiver, monkeypatch
):
    monkeypatch.setattr(liveness, "SILENT", -1.0)
    now = [0.0]
    found = watch(clock=lambda: now[0])
    with published(world.loop, tmp_path) as publisher, State(tmp_path).hold_lock():
        publish(publisher)
        for seconds in (0.0, outages.SILENCE - 1):  # the wall clock alone does not count
            now[0] = seconds
            found.check()
        assert not (tmp_path / "outage").exists()
        now[0] = outages.SILENCE
        found.check()
    found.webhook.close()
    (event,) = receiver.events("down")
    assert event["error"].startswith("no heartbeat since ")


def test_only_named_events_are_sent(watch, world, tmp_path, receiver):
    found = watch(events=["up"])
    with published(world.loop, tmp_path) as publisher:
        publish(publisher)
        found.check()
        with State(tmp_path).hold_lock():
            revive(publisher, tmp_path / "outage", found)
    found.webhook.close()
    assert types(receiver) == ["up"]


@pytest.mark.slow
def test_real_processes_that_are_killed_or_hang_are_reported_once_by_two_servers(
    streamboost_command, receiver, tmp_path, monkeypatch
):
    monkeypatch.setattr(app, "_OUTAGE_INTERVAL", 0.1)
    monkeypatch.setattr(outages, "SILENCE", 1.0)
    for name, value in (("NOTIFY_URL", receiver.url), ("NOTIFY_SECRET", "c2VjcmV0" * 4)):
        monkeypatch.setenv(name, value)
        streamboost_command.environment[name] = value
    file = tmp_path / "p.toml"
    file.write_text(PIPELINE)
    records = [{"id": str(i), "a": i % 7, "b": i % 3} for i in range(50)]
    (tmp_path / "records.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in records))
    with ExitStack() as stack:
        sites = [stack.enter_context(site_of(file)) for _ in range(2)]
        status = sites[0].served.status
        process = streamboost_command.start("run", "p.toml")
        until(lambda: (status.document("pipeline") or {}).get("sequence"))
        process.send_signal(signal.SIGSTOP)
        until(lambda: types(receiver) == ["down"])
        process.send_signal(signal.SIGCONT)
        until(lambda: types(receiver) == ["down", "up"])
        process.kill()
        until(lambda: types(receiver) == ["down", "up", "down"])
    reasons = [event["error"] for event in receiver.events("down")]
    assert reasons[0].startswith("no heartbeat since ")
    assert reasons[1] == "process ended unexpectedly"
    assert all(headers["webhook-signature"] for _, headers, _ in receiver.requests)
    with site_of(file):
        process = streamboost_command.start("run", "p.toml")
        until(lambda: types(receiver) == ["down", "up", "down", "up"])
        stopped(process)
        until(lambda: not State(tmp_path / "state").is_running())
    assert types(receiver) == ["down", "up", "down", "up"]
