"""Notifications of a pipeline, received by a real HTTP server."""

import base64
import hashlib
import hmac
import json
import logging

import pytest
from waiting import until

from streamboost.errors import ConfigurationError, ConnectorError
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.config.sections import NotifySection
from streamboost.pipelines.monitoring import notifier as notifier_module
from streamboost.pipelines.monitoring import webhook
from streamboost.pipelines.monitoring.metrics import Metrics
from streamboost.pipelines.monitoring.notifier import Notifier
from streamboost.pipelines.state.folder import State

KEY = b"a key of thirty-two bytes at all"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"


@pytest.fixture
def configure(tmp_path, receiver):
    """Return a function that writes `n` records with their labels, and a pipeline over them."""

    def write(messages, name):
        text = "".join(json.dumps(message) + "\n" for message in messages)
        (tmp_path / f"{name}.jsonl").write_text(text)

    def configure(records, truth=(), **notify):
        write(records, "records")
        labels = zip(records, truth, strict=False)
        write([{"id": record["id"], "label": label} for record, label in labels], "labels")
        tables = {
            "pipeline": {"name": "payments", "batch_records": 10, "checkpoint_every": 3},
            "source": {"connector": "files", "path": "records.jsonl"},
            "labels": {"connector": "files", "path": "labels.jsonl"},
            "committee": {"n_estimators": 2},
            "query": {"budget": 0.5},
            "notify": {"url": "${URL}", "every": 0} | notify,
        }
        return parse(tables, tmp_path, environment={"URL": receiver.url, "SECRET": SECRET})

    return configure


@pytest.fixture
def watch(receiver):
    """Return a function that notifies of a loop's events, with checks after every batch."""
    notifiers = []

    def watch(loop, **settings):
        section = NotifySection(url=receiver.url, **({"every": 0} | settings))
        found = Notifier(section, "payments")
        found.watch(loop)
        notifiers.append(found)
        return found

    yield watch
    for one in notifiers:
        one.webhook.close()


def test_messages_of_requests_are_signed_and_readable_for_slack(configure, make_records, receiver):
    config = configure(*make_records(50), secret="${SECRET}", every=60)
    run(config, until_idle=True)
    assert len(receiver.requests) <= 2, "the events of further batches are merged"
    n = 0
    for path, headers, body in receiver.requests:
        assert path == "/services/hidden?token=hunter2"
        assert headers["content-type"] == "application/json"
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = base64.b64encode(hmac.digest(KEY, signed, hashlib.sha256)).decode()
        assert headers["webhook-signature"] == f"v1,{digest}"
        sent = json.loads(body)
        (event,) = sent["events"]
        n += event["requested"]
        assert sent["pipeline"] == "payments"
        assert sent["text"].startswith(f"payments: {event['requested']} label")
        assert f"{event['open']} request" in sent["text"]
    assert sent["sequence"] == 5
    assert 0 < n <= 25


def test_nothing_is_sent_again_by_a_restart_or_a_replay(configure, make_records, receiver):
    config = configure(*make_records(70))
    run(config, until_idle=True)
    assert 1 <= len(receiver.requests) <= 7, "one message a batch at most"
    requested = sum(event["requested"] for event in receiver.events("requests"))
    State(config.state).checkpoints.remove_after(3)  # as a kill leaves the state
    run(config, until_idle=True)
    run(config, until_idle=True)
    assert sum(event["requested"] for event in receiver.events("requests")) == requested


def test_a_run_that_ends_with_an_error_is_notified_once(
    configure, make_records, receiver, tmp_path
):
    config = configure(make_records(20)[0], events=["down"])
    run(config, until_idle=True)
    assert receiver.requests == []
    (tmp_path / "records.jsonl").write_text("")
    for _ in range(2):
        with pytest.raises(ConnectorError, match="truncated"):
            run(config, until_idle=True)
    (event,) = receiver.events("down")
    assert "records.jsonl was truncated" in event["error"]
    (sent,) = receiver.messages
    assert sent["text"].startswith("payments: the pipeline is down: ")
    assert sent["sequence"] == 2


def test_a_failed_message_is_retried_under_the_same_id(
    world, make_records, receiver, watch, monkeypatch
):
    monkeypatch.setattr(webhook, "DELAYS", (0.01,) * 5)
    receiver.statuses = [500, 429, 503]
    found, results = watch(world.loop), []
    found.webhook.on_result = results.append
    world.feed(make_records(10)[0])
    world.run()
    found.webhook.send_soon()
    until(lambda: results)
    assert results == ["sent"]
    assert len(receiver.requests) == 4
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 1
    assert len({body for *_, body in receiver.requests}) == 1


@pytest.mark.parametrize("status", [404, 302])
def test_failures_are_counted_and_logged_once_without_the_address(
    world, make_records, receiver, watch, caplog, status
):
    receiver.statuses = [status] * 9
    metrics, found = Metrics(world.loop), watch(world.loop)
    found.webhook.on_result = metrics.count_notification
    text = 'streamboost_notifications_total{result="failed"} '
    for n in (1, 2):
        world.feed(make_records(10, start=10 * n)[0])
        world.run()
        found.webhook.send_soon()
        until(lambda n=n: f"{text}{n}.0" in metrics.expose().decode())
    assert len(receiver.requests) == 2, "neither retried nor redirected"
    (line,) = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert f"HTTP status {status}" in line.getMessage()
    assert "hunter2" not in line.getMessage()
    assert "hidden" not in line.getMessage()


def test_a_receiver_that_does_not_answer_keeps_no_batch_waiting(
    configure, make_records, receiver, monkeypatch
):
    monkeypatch.setattr(webhook, "_CLOSING", 0.01)
    receiver.may_answer.clear()
    assert run(configure(*make_records(50)), until_idle=True) == 5
    assert len(receiver.requests) == 1


def test_without_a_server_the_pipeline_continues(configure, make_records, receiver, monkeypatch):
    monkeypatch.setattr(webhook, "DELAYS", ())
    config = configure(*make_records(50))
    receiver.close()
    assert run(config, until_idle=True) == 5


def test_a_class_that_gets_worse_is_notified_once_and_not_after_a_restart(
    make_world, make_records, receiver, watch, monkeypatch
):
    monkeypatch.setattr(notifier_module, "CHECK_EVERY", 0.0)
    world = make_world(budget=1.0, batch=100, retrain_every=10_000, extend_every=None, growth=100.0)
    found = watch(world.loop, events=["regression"])
    records, truth = make_records(4_000)
    swapped = {"left": "right", "right": "left"}
    truth[3_000:] = [swapped[label] for label in truth[3_000:]]
    for start in range(0, 4_000, 100):
        part = slice(start, start + 100)
        answers = zip(records[part], truth[part], strict=True)
        world.feed(records[part], [{"id": r["id"], "label": label} for r, label in answers])
        world.run()
    found.webhook.close()
    events = receiver.events("regression")
    classes = [event["class"] for event in events if "class" in event]
    assert "left" in classes
    assert len(classes) == len(set(classes))
    assert sum("accuracy_drop" in event for event in events) == 1
    assert "recall of left is " in "".join(sent["text"] for sent in receiver.messages)
    n = len(receiver.requests)
    again = watch(world.loop, events=["regression"])  # as after a restart on the same state
    world.feed(make_records(10, start=4_000)[0])
    world.run()
    again.webhook.close()
    assert len(receiver.requests) == n
    assert again._regressed == found._regressed >= {"left", notifier_module._ALL}


def set_balances(world, monkeypatch, balances):
    """Let a loop be running, with these tokens left, one after another."""
    left, ledger = iter(balances), type(world.pipeline.learner.ledger)
    tokens = property(lambda learner: ledger(0, 0, 0, 0, 0, next(left)))
    monkeypatch.setattr(type(world.pipeline.learner), "ledger", tokens)
    world.loop.is_running = True


def test_a_run_that_ends_soon_is_checked_at_its_end(world, receiver, watch, monkeypatch):
    found = watch(world.loop, events=["budget"])
    set_balances(world, monkeypatch, [10.0, 0.5])
    with found.notify_failure(lambda: 0, lambda: None):
        found.between_batches()
        found._is_stale = True
        found.between_batches()
        assert receiver.messages == [], "the next check is due in five seconds"
    assert receiver.events("budget") == [{"type": "budget", "tokens": 0.5}]


def test_the_end_of_a_saved_budget_is_notified(world, make_records, receiver, watch, monkeypatch):
    monkeypatch.setattr(notifier_module, "CHECK_EVERY", 0.0)
    found = watch(world.loop, events=["budget"])
    set_balances(world, monkeypatch, [0.0, 10.0, 5.0, 0.5, 0.5])
    for _ in range(5):
        found._is_stale = True
        found.between_batches()
    found.webhook.close()
    assert receiver.events("budget") == [{"type": "budget", "tokens": 0.5}]
    assert receiver.messages[0]["text"] == "payments: the label budget is used up"


def test_drift_is_notified_with_the_label_at_which_it_was_detected(
    make_world, make_records, receiver, watch
):
    world = make_world(budget=1.0, batch=100, on_drift="adwin")
    found = watch(world.loop, events=["drift"])
    records, truth = make_records(800)
    swapped = {"left": "right", "right": "left"}
    truth[400:] = [swapped[label] for label in truth[400:]]
    answers = zip(records, truth, strict=True)
    world.feed(records, [{"id": r["id"], "label": label} for r, label in answers])
    world.run()
    found.webhook.close()
    events = receiver.events("drift")
    assert events
    assert all(400 < event["label"] <= 800 for event in events)
    assert "payments: drift was detected at label " in receiver.messages[0]["text"]


def test_estimates_are_read_for_their_events_alone(world, watch):
    """The runner completes its commit before each reading of the estimates."""
    assert watch(world.loop, events=["regression"]).is_work_due
    assert watch(world.loop, events=["budget"]).is_work_due
    assert not watch(world.loop, events=["requests", "drift", "down"]).is_work_due


def test_class_names_cannot_mention_a_channel_or_add_lines(receiver, watch, world):
    found = watch(world.loop)
    found._add("regression", **{"class": "<!channel>\nx&y", "recall": 0.5, "before": 0.75})
    found.webhook.send_soon()
    until(lambda: receiver.requests)
    assert receiver.messages[0]["text"] == (
        r"payments: recall of &lt;!channel&gt;\nx&amp;y is 50 %, and was 75 % since the start"
    )


def test_waiting_events_are_bounded_and_the_end_of_the_run_is_kept(receiver, watch, world):
    found = watch(world.loop)
    for n in range(500):
        found._add("regression", **{"class": str(n), "recall": 0.5, "before": 0.75})
    found._add("down", error="out of memory")
    assert len(found._pending) == notifier_module.MAX_EVENTS + 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("url", "ftp://localhost"),
        ("url", "https://me:hunter2@example.com/x"),
        ("url", "https://example.com:port/hunter2"),
        ("url", "https://"),
        ("url", "https://example.com/hunter2 x"),
        ("secret", "hunter2"),
        ("secret", "whsec_" + "aHVudGVyMg=="),
    ],
)
def test_wrong_addresses_and_secrets_are_refused_without_their_text(tmp_path, key, value):
    tables = {
        "pipeline": {"name": "payments"},
        "source": {"connector": "files", "path": "records.jsonl"},
        "notify": {"url": "${URL}", "secret": "${SECRET}"},
    }
    environment = {"URL": "https://example.com", "SECRET": SECRET} | {key.upper(): value}
    with pytest.raises(ConfigurationError) as told:
        parse(tables, tmp_path, environment=environment)
    assert f"[notify] {key}: must be " in str(told.value)
    assert "hunter2" not in str(told.value)
    tables["notify"][key] = value
    with pytest.raises(ConfigurationError, match=rf"\[notify\] {key}: is a secret") as told:
        parse(tables, tmp_path, environment=environment)
    assert "hunter2" not in str(told.value)


def test_check_names_events_and_server_alone(configure, make_records):
    config = configure(make_records(5)[0], secret="${SECRET}", events=["down", "drift"])
    (found,) = (one for one in check_pipeline(config) if one.part == "notify")
    server = webhook.url_origin(config.sections.notify.url)
    assert (found.ok, found.text) == (True, f"down, drift to {server}, signed")
    assert config.written["notify"]["url"] == "${URL}"
    assert SECRET not in config.to_toml()
