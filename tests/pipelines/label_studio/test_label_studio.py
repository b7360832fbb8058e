"""Requests to Label Studio and answers back, whatever fails between."""

import json
import os
import signal
import time
from collections import Counter
from contextlib import closing

import pytest
from label_studio_server import LEGACY, StandIn, interface

from streamboost.connectors.messages.written import Request
from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.errors import ConfigurationError, ConnectorError, StateError, UnavailableError
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.job import check as checking
from streamboost.pipelines.job.connect import create_topics
from streamboost.pipelines.job.run import run as run_pipeline
from streamboost.pipelines.label_studio import bridge as label_studio_bridge
from streamboost.pipelines.label_studio import run as label_studio
from streamboost.pipelines.label_studio import tasks as label_studio_book
from streamboost.pipelines.label_studio.tasks import FILE, Book, TaskEntry
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.status.reader import StatusReader
from streamboost.pipelines.stop import Stop


@pytest.fixture(scope="module")
def server():
    server = StandIn()
    yield server
    server.close()


@pytest.fixture
def studio(server):
    server.begin_anew()
    return server


@pytest.fixture
def make_config(studio, tmp_path):
    def make(**sections):
        tables = {
            "pipeline": {"name": "asks", "batch_records": 10},
            "schema": {"numeric": ["a", "b"]},
            "source": {"connector": "sqlite", "stream": "records"},
            "query": {"budget": 0.5},
            "label_studio": {"url": studio.url, "project": 7, "token": "${TOKEN}"},
            "monitor": {"publish_every": 0.0},
        }
        config = parse(tables | sections, tmp_path, environment={"TOKEN": LEGACY})
        config.state.mkdir(exist_ok=True)
        return config

    return make


@pytest.fixture
def config(make_config):
    return make_config()


def write(config, stream, messages):
    with closing(SqliteSink(config.state / "log.db", stream)) as sink:
        sink.write([json.dumps(message).encode() for message in messages])
        sink.flush()


def request(id, sequence=1, label="left"):
    message = Request(
        id=id,
        time=None,
        features={"a": 0.5, "b": None},
        label=label,
        probabilities={"left": 0.75, "right": 0.25} if label else {},
        utility=0.5,
        propensity=1.0,
        expires=None,
        sequence=sequence,
    )
    return message.encode()


def ask(config, *ids, **more):
    with closing(SqliteSink(config.state / "log.db", "requests")) as sink:
        sink.write([request(id, **more) for id in ids])
        sink.flush()


def labels(config):
    with closing(SqliteSource(config.state / "log.db", "labels")) as source:
        return [json.loads(message.payload) for message in source.poll(10_000)]


def turn(config):
    """Carry over what there is now, as a process of its own would."""
    label_studio.run(config, Stop(), once=True)


def test_requests_become_tasks_with_a_suggested_answer(config, studio):
    ask(config, "1", "2", sequence=3)
    turn(config)
    assert studio.by_record().keys() == {"1", "2"}
    task = studio.tasks[studio.by_record()["1"][0]]
    assert task["data"] == {
        "id": "1",
        "features": {"a": 0.5, "b": None},
        "guess": "left",
        "probability": 0.75,
        "utility": 0.5,
        "streamboost": "asks/3/1",
    }
    (prediction,) = task["predictions"]
    assert prediction["model_version"] == "asks batch 3"
    assert prediction["score"] == 0.75
    assert prediction["result"][0]["value"] == {"choices": ["left"]}


@pytest.mark.parametrize("label", [None, "up"])
def test_a_guess_that_is_no_choice_is_not_suggested(config, studio, label):
    ask(config, "1", label=label)
    turn(config)
    ((number,),) = studio.by_record().values()
    assert studio.tasks[number]["predictions"] == []


def test_finished_annotations_become_labels(config, studio):
    ask(config, "1", "2", "3")
    turn(config)
    numbers = studio.by_record()
    studio.annotate(numbers["1"][0], "left")
    studio.annotate(numbers["2"][0], "right", cancelled=True)
    turn(config)
    assert labels(config) == [
        {
            "id": "1",
            "label": "left",
            "time": "2026-03-09T22:16:08.728353Z",
            "source": "label studio",
        }
    ]
    studio.annotate(numbers["2"][0], "right")
    turn(config)
    turn(config)
    assert [label["id"] for label in labels(config)] == ["1", "2"]
    assert studio.by_record() == numbers, "what people have done stays"


def test_labels_are_whole_numbers_where_the_schema_says_so(make_config, studio):
    config = make_config(schema={"numeric": ["a", "b"], "label": "integer"})
    with pytest.raises(ConfigurationError, match="the choice 'left' is not a whole number"):
        turn(config)
    studio.config = interface(["1", "-2"])
    ask(config, "x", label=-2)
    turn(config)
    ((number,),) = studio.by_record().values()
    assert studio.tasks[number]["predictions"][0]["result"][0]["value"] == {"choices": ["-2"]}
    studio.annotate(number, "-2")
    turn(config)
    assert [label["label"] for label in labels(config)] == [-2]


def test_a_label_from_elsewhere_ends_a_task_that_nobody_began(config, studio):
    ask(config, "1", "2", "3")
    turn(config)
    studio.annotate(studio.by_record()["2"][0], "left", cancelled=True)
    write(config, "labels", [{"id": "1", "label": "left"}, {"id": "2", "label": "left"}, {}])
    write(config, "labels", [{"id": "4", "label": "left"}])
    ask(config, "4")
    turn(config)
    assert studio.by_record().keys() == {"2", "3"}


def test_a_task_that_somebody_removed_is_let_go(config, studio):
    ask(config, "1")
    turn(config)
    studio.tasks.clear()
    turn(config)
    turn(config)
    assert studio.tasks == {}


@pytest.mark.parametrize("fault", ["lost", 500, 503])
def test_an_import_in_doubt_makes_each_task_once(config, studio, fault, monkeypatch):
    ask(config, "1", "2")
    studio.faults.append(("POST", "/api/projects/7/import", fault))
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
    studio.faults.append(("POST", "/api/projects/7/import", "lost"))
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
        label_studio_bridge.LabelStudio,
        "create",
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
        patch.setattr(Book, "close", killed)
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

    class Patient(Stop):
        def rest(self, seconds):
            self.requested = len(labels(config)) > 0

    monkeypatch.setattr(SqliteSink, "flush", flush_later)
    label_studio.run(config, Patient())
    turn(config)
    assert [label["id"] for label in labels(config)] == ["1"]


def test_a_killed_process_is_taken_on_from_where_it_was(
    config, studio, tmp_path, streamboost_command
):
    (tmp_path / "p.toml").write_text(
        '[pipeline]\nname = "asks"\n[schema]\nnumeric = ["a", "b"]\n'
        '[source]\nconnector = "sqlite"\nstream = "records"\n[monitor]\npublish_every = 0.0\n'
        f'[label_studio]\nurl = "{studio.url}"\nproject = 7\ntoken = "${{TOKEN}}"\n'
    )
    streamboost_command.environment["TOKEN"] = LEGACY
    ask(config, "1", "2", "3")
    process = streamboost_command.start("label-studio", "p.toml")
    studio.faults.append(
        ("POST", "/api/projects/7/import", lambda: os.kill(process.pid, signal.SIGKILL))
    )
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert LEGACY not in err
    assert studio.by_record().keys() == {"1", "2", "3"}
    studio.annotate(studio.by_record()["3"][0], "right")
    turn(config)
    assert Counter(len(n) for n in studio.by_record().values()) == {1: 3}
    assert [label["id"] for label in labels(config)] == ["3"]


def test_a_request_that_is_read_twice_makes_one_task(config, studio):
    ask(config, "1")
    turn(config)
    ask(config, "1")
    ask(config, "1", sequence=9)
    turn(config)
    keys = sorted(task["data"]["streamboost"] for task in studio.tasks.values())
    assert keys == ["asks/1/1", "asks/9/1"]


def test_what_is_refused_ends_it_with_a_word(config, studio):
    studio.config = interface(variables=["features", "text"])
    ask(config, "1")
    with pytest.raises(ConfigurationError, match=r"shows \$text, which no record has had"):
        turn(config)
    studio.config = interface()
    turn(config)
    studio.faults.append(("GET", "/api/projects/7/", 403))
    with pytest.raises(ConnectorError, match="403"):
        turn(config)


def test_two_cannot_serve_one_pipeline(config):
    with (
        Book(config.state / FILE).held(),
        pytest.raises(StateError, match="runs for this pipeline already"),
    ):
        turn(config)


def test_labels_that_cannot_be_written_are_refused_at_once(make_config, studio):
    config = make_config(labels={"connector": "river", "dataset": "Phishing", "delay": 1})
    with pytest.raises(ConfigurationError, match=r"\[labels\] cannot be written to"):
        turn(config)


def test_check_tries_the_project(config, studio):
    def found():
        (finding,) = [one for one in checking.check(config) if one.part == "label_studio"]
        return finding

    assert found().ok
    assert found().text == f"project 7 at {studio.url}, choices left, right"
    studio.faults.append(("GET", "/api/projects/7/", 500))
    assert not found().ok


def test_failures_are_tried_again_ever_more_seldom(config, studio):
    rests = []

    class Patient(Stop):
        def rest(self, seconds):
            rests.append(seconds)
            self.requested = len(rests) == 6

    studio.faults.extend([("GET", "/api/projects/7/", 500)] * 4)
    ask(config, "1")
    label_studio.run(config, Patient())
    assert rests == [10, 20, 40, 60, 5, 5]
    assert studio.by_record().keys() == {"1"}


def test_the_oldest_that_are_done_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(label_studio_book, "KEPT", 100)
    book = Book(tmp_path / FILE)
    rows = [TaskEntry(f"p/1/{i}", str(i), 1, b"{}") for i in range(110)]
    with book.held():
        book.take("requests", {"0": 10}, rows)
        book.close(rows[:20])
        assert len(book.entries("done")) == 10
        assert len(book.entries("new")) == 90
        assert book.position("requests") == {"0": 10}


@pytest.mark.kafka
def test_requests_and_labels_may_be_topics(studio, tmp_path, kafka_servers):
    tables = {
        "pipeline": {"name": f"asks.{time.time_ns()}"},
        "schema": {"numeric": ["a", "b"]},
        "kafka": {"bootstrap_servers": kafka_servers},
        "source": {"connector": "kafka"},
        "label_studio": {"url": studio.url, "project": 7, "token": "${TOKEN}"},
        "monitor": {"publish_every": 0.0},
    }
    config = parse(tables, tmp_path, environment={"TOKEN": LEGACY})
    create_topics(config)
    with closing(config.sections.requests.sink(config.surroundings)) as sink:
        sink.write([request("1"), request("2")])
        sink.flush()
    turn(config)
    studio.annotate(studio.by_record()["2"][0], "right")
    turn(config)
    turn(config)
    with closing(config.sections.labels.source(config.surroundings)) as source:
        (label,) = source.poll(10)
    assert json.loads(label.payload)["id"] == "2"
    assert Counter(len(n) for n in studio.by_record().values()) == {1: 2}


class TestBesideAPipeline:
    """The real one, which publishes its status."""

    @pytest.fixture
    def config(self, make_config):
        return make_config(
            monitor={"publish_every": 0.01},
            requests={"connector": "sqlite", "stream": "requests", "expires_after": 60},
        )

    def feed(self, config, records, **fields):
        write(config, "records", [record | fields for record in records])
        run_pipeline(config, until_idle=True)

    def test_answers_are_learned_and_expired_tasks_removed(self, config, studio, make_records):
        studio.config = interface(variables=["features", "note"])
        records, truth = make_records(140)
        self.feed(config, records[:40], note="looks odd")
        turn(config)
        numbers = studio.by_record()
        assert len(numbers) > 5
        assert {task["data"]["note"] for task in studio.tasks.values()} == {"looks odd"}
        answered = list(numbers)[::2]
        for id in answered:
            studio.annotate(numbers[id][0], truth[int(id)])
        turn(config)
        for start in range(40, 140, 10):  # no backlog, by which nothing would expire
            self.feed(config, records[start : start + 10], note="")
        counts = State(config.state).checkpoints.newest()[1]["join"]
        assert counts["answered"] == len(answered)
        assert counts["duplicate"] == counts["conflicting"] == 0
        turn(config)
        with closing(StatusReader(config.state)) as reader:
            wanted = {one["id"] for one in reader.requests()}
        assert studio.by_record().keys() == wanted | set(answered), "what people have done stays"
        assert numbers.keys() - studio.by_record().keys(), "nobody waits for these any more"

    def test_a_field_that_a_record_lacks_is_shown_empty(self, config, studio, make_records):
        studio.config = interface(variables=["features", "note"])
        records, _ = make_records(40)
        for record in records[::2]:
            record["note"] = "looks odd"
        self.feed(config, records)
        turn(config)
        assert {task["data"]["note"] for task in studio.tasks.values()} == {"looks odd", ""}

    def test_a_status_that_cannot_be_read_removes_nothing(self, config, studio, make_records):
        self.feed(config, make_records(40)[0])
        turn(config)
        before = studio.by_record()
        (config.state / "status.db").write_bytes(b"torn")
        turn(config)
        (config.state / "status.db").unlink()
        turn(config)
        assert studio.by_record() == before
