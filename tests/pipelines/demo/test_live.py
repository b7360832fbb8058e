"""The interactive demo: started as a process, answered over HTTP, and stopped."""

import json
import os
import re
import signal
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from waiting import until

from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.errors import ConfigurationError, StateError, UnavailableError
from streamboost.pipelines.cli import demo as cli_demo
from streamboost.pipelines.demo import live as demo_serve
from streamboost.pipelines.demo.live import (
    FAST,
    FIRST,
    OURS,
    PACE,
    RecordCountObserver,
    StreamSimulator,
)
from streamboost.pipelines.shutdown import StopToken


def read(log, stream):
    with closing(SqliteSource(log, stream)) as source:
        return [json.loads(message.payload) for message in source.poll(100_000)]


@pytest.fixture
def started(streamboost_command, tmp_path):
    """What starts the demo, and its folder."""
    folder = tmp_path / "demo"
    begun = []

    def start():
        begun.append(streamboost_command.start("demo", "--serve", "--state", str(folder)))
        return begun[-1]

    yield start, folder
    for process in begun:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


def child_of(process):
    """The number of the one process that `process` has started; None where that is not told."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return int(path.read_text()) if path.exists() else None


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_newcomer_labels_a_record_and_the_pipeline_learns_it(started):
    start, folder = started
    process, log = start(), folder / "state" / "log.db"
    assert str(folder) in process.stdout.readline()
    link = re.search(r"(http://127\.0\.0\.1:\d+)/login\?key=\S+", process.stdout.readline())
    assert len(read(log, "predictions")) >= FIRST, "judged before the link is told"
    with httpx.Client(base_url=link[1], headers={"Origin": link[1]}, timeout=60) as browser:
        assert browser.post(link[0]).status_code == 303
        assert httpx.get(link[0], timeout=60).status_code == 401, "the link works once"
        labelling = "/api/v1/pipelines/demo/labelling"

        def asked():
            return browser.post(f"{labelling}/next").raise_for_status().json()["request"]

        def answered():
            """Return an answer that was accepted, and its request.

            None where the request was answered by the dataset, or expired, after it was shown.
            """
            request = until(asked)
            assert request["fields"]["picture"].startswith("data:image/png;base64,")
            assert "picture" not in request["features"]
            answer = {"id": request["id"], "label": "7"}
            response = browser.post(f"{labelling}/answer", json=answer)
            if response.status_code == httpx.codes.CONFLICT:
                return None
            response.raise_for_status()
            return request, answer

        def dropped():
            counts = browser.get("/api/v1/pipelines/demo/status").json()["join"]
            return counts["expired"] + counts["late"]

        def learned():
            """Tell whether an answer came before its request expired, as nearly each does."""
            before = dropped()
            request, answer = until(answered)
            until(lambda: answer in [{k: one[k] for k in answer} for one in read(log, "labels")])

            def is_open():
                found = browser.get("/api/v1/pipelines/demo/requests", params={"limit": 500})
                return request["id"] in [one["id"] for one in found.json()]

            until(lambda: not is_open())
            return dropped() == before

        assert until(learned), "learned, not dropped"
        assert until(asked), "and there is another to be answered"
        server = child_of(process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert server is None or not is_alive(server)
    with pytest.raises(httpx.ConnectError):
        httpx.get(link[1])
    n = len(read(log, "predictions"))
    again = start()
    until(lambda: len(read(log, "predictions")) > n)
    ids = [record["id"] for record in read(log, "records")]
    assert len(set(ids)) == len(ids), "it goes on where it was"
    again.send_signal(signal.SIGTERM)
    _, err = again.communicate(timeout=60)
    assert (again.returncode, "Traceback" in err) == (0, False), err


@pytest.mark.slow
def test_a_server_that_ends_ends_the_demo_with_a_word(tmp_path, capfd):
    never = 70_000
    with pytest.raises(ConfigurationError, match=r"`streamboost serve` failed with code 2"):
        demo_serve.run_live_demo(
            tmp_path, strategy="random", seed=1, budget=0.1, port=never, stop=StopToken()
        )
    assert "--port" in capfd.readouterr().err


def test_what_only_a_demo_that_ends_can_show_is_refused():
    for words in ({"as_json": True}, {"strategy": cli_demo.Strategy.repeat_last}):
        with pytest.raises(ConfigurationError, match="demo --serve runs one pipeline"):
            cli_demo.demo(serve=True, **words)


def ask(requests, ids):
    requests.write([json.dumps({"id": str(id)}).encode() for id in ids])
    requests.flush()


def test_every_third_request_is_answered_once_the_pages_are_open_and_the_rest_is_left(tmp_path):
    log, now = tmp_path / "log.db", [0.0]
    records = [{"id": str(i), "x": i / 2} for i in range(50)]
    truth = [str(i) for i in range(50)]
    with (
        closing(StreamSimulator(log, records, truth, clock=lambda: now[0])) as player,
        closing(SqliteSink(log, "requests")) as requests,
    ):
        player.write_due_records()
        now[0] = 2.0
        player.write_due_records()
        assert len(read(log, "records")) == 2 * FAST
        now[0] = FIRST / FAST + 5.5
        player.write_due_records()
        written = read(log, "records")
        assert len(written) == FIRST + int(5.5 * PACE)
        assert [int(record["id"]) for record in written] == list(range(len(written)))
        assert written[60]["x"] == written[10]["x"]
        ids = range(FIRST - 5, FIRST + 2 * OURS)
        ask(requests, ids)
        player.write_due_records()
    labels = {int(label["id"]): label["label"] for label in read(log, "labels")}
    assert labels == {id: str(id % 50) for id in labels}
    assert [id for id in labels if id >= FIRST] == [FIRST + OURS - 1, FIRST + 2 * OURS - 1]
    assert set(range(FIRST - 5, FIRST)) <= labels.keys()


@pytest.mark.parametrize("seconds", [1.0, FIRST / FAST + 3.0], ids=["while it opens", "later"])
def test_a_demo_that_goes_on_brings_new_records_and_answers_nothing_twice(tmp_path, seconds):
    log, now = tmp_path / "log.db", [0.0]

    def player():
        return closing(StreamSimulator(log, [{"x": 1.0}], ["a"], clock=lambda: now[0]))

    with player() as first, closing(SqliteSink(log, "requests")) as requests:
        now[0] = seconds
        first.write_due_records()
        ask(requests, [7, 8])
        first.write_due_records()
        n = len(read(log, "records"))
        ask(requests, [9])  # open when it ended: to be answered by whom it is left to
        with player() as second:
            second.write_due_records()
            assert (second.start, len(read(log, "records"))) == (n, n)
            now[0] += 10.0
            second.write_due_records()
            due = FIRST - n + PACE * (10.0 - (FIRST - n) / FAST) if n < FIRST else 10.0 * PACE
            ids = [int(record["id"]) for record in read(log, "records")]
            assert ids == list(range(n + int(due)))
    assert [label["id"] for label in read(log, "labels")] == ["7", "8"]


def test_a_folder_with_a_demo_of_other_settings_is_refused(tmp_path):
    sections = demo_serve.pipeline_sections("margin", 1, 0.1)
    begun = demo_serve._create_or_continue_pipeline(sections, tmp_path / "demo")
    assert demo_serve._create_or_continue_pipeline(sections, tmp_path / "demo").state == begun.state
    with pytest.raises(StateError, match="has a demo with other settings"):
        demo_serve._create_or_continue_pipeline(
            demo_serve.pipeline_sections("margin", 2, 0.1), tmp_path / "demo"
        )


def test_the_pages_open_once_the_first_records_are_judged():
    class Batch:
        n_predicted = FIRST // 2

    counter = RecordCountObserver(FIRST)
    counter.on_commit(Batch())
    assert not counter.enough_records.is_set()
    counter.on_commit(Batch())
    assert counter.enough_records.is_set()
    assert RecordCountObserver(0).enough_records.is_set(), "one that goes on has judged them"


def test_records_that_somebody_else_brings_are_theirs_to_answer(tmp_path):
    log, now = tmp_path / "log.db", [0.0]
    with (
        closing(StreamSimulator(log, [{"x": 1.0}], ["a"], clock=lambda: now[0])) as player,
        closing(SqliteSink(log, "requests")) as requests,
    ):
        now[0] = 1.0
        foreign = ["mine", "-1", str(FAST), "9" * 5_000]
        requests.write([json.dumps({"id": id}).encode() for id in [*foreign, "7"]])
        requests.flush()
        player.write_due_records()
    assert [label["id"] for label in read(log, "labels")] == ["7"]


def test_a_player_that_fails_ends_the_demo():
    class Broken:
        def write_due_records(self):
            raise UnavailableError("no space is left")

    class Server:
        def poll(self):
            return None

    stop = StopToken()
    with (
        pytest.raises(UnavailableError, match="no space is left"),
        demo_serve._run_simulator_thread(Broken(), Server(), stop),
    ):
        until(lambda: stop.requested)
