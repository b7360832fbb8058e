"""Shutdown of `serve` and `label-studio`: SIGTERM ends them within seconds and loses nothing."""

import json
import socket
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import pytest
from serving import Serving, make_file, put, read, some_records
from waiting import until
from websockets.sync.client import connect

from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from tests.label_studio.front import LEGACY
from tests.label_studio.stand_in import StandIn
from tests.pipelines.stopping import lines, stopped

BRIDGE = """
[label_studio]
url = "{url}"
project = 7
token = "${{TOKEN}}"
poll_interval = 0.05
"""


@pytest.fixture
def asking(tmp_path):
    """A pipeline that waits for labels."""
    config = load(make_file(tmp_path / "job"))
    put(config, "records", some_records(60))
    run(config, until_idle=True)
    return config


@contextmanager
def locked(config):
    """Hold the log meanwhile, so that nobody else can write to it."""
    log = config.state / "log.db"
    with closing(sqlite3.connect(log, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


class TestServe:
    @pytest.fixture
    def start(self, asking, streamboost_command):
        with ExitStack() as started:

            def start():
                serving = Serving(streamboost_command, "job/p.toml")
                started.callback(serving.kill)
                return serving

            yield start

    @pytest.mark.slow
    def test_while_those_who_came_say_nothing(self, start):
        serving = start()
        token = serving.client.headers["Authorization"]
        ours = f"Host: localhost\r\nAuthorization: {token}\r\n"
        handshake = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        handshake += "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        page = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        said = (
            "",
            "GET / HTTP/1.1\r\nHost: ",
            f"POST /api/v1/pipelines/test/labels HTTP/1.1\r\n{ours}Content-Length: 10\r\n\r\n{{",
            f"GET {page} HTTP/1.1\r\n{ours}{handshake}\r\n",
        )
        with ExitStack() as opened:
            for text in said:
                address = serving.client.base_url.host, serving.client.base_url.port
                connection = opened.enter_context(socket.create_connection(address))
                connection.sendall(text.encode())
            assert connection.recv(100).startswith(b"HTTP/1.1 101")
            url = str(serving.client.base_url.copy_with(scheme="ws")).rstrip("/") + page
            given = {"Authorization": token}
            browser = opened.enter_context(connect(url, additional_headers=given))
            assert "sid" in browser.recv()
            assert "Traceback" not in stopped(serving.process)

    @pytest.mark.slow
    def test_while_somebody_else_holds_what_labels_are_written_to(self, start, asking):
        serving = start()
        id = serving.post("labelling/next")["request"]["id"]

        def post(id):
            body = {"labels": [{"id": id, "label": "left"}]}
            return serving.client.post("/api/v1/pipelines/test/labels", json=body).status_code

        with locked(asking):
            assert serving.post("labelling/answer", {"id": id, "label": "left"})["stage"] == "held"
            with ThreadPoolExecutor() as threads:
                posts = [threads.submit(post, id) for id in ("1", "2")]
                until(lambda: any(each.done() for each in posts))  # since the other has not ended
                said = stopped(serving.process)
        assert [each.result() for each in posts] == [503, 503]
        assert "Traceback" not in said
        assert "the next `streamboost serve` writes the pending labels" in said
        start()
        until(lambda: [label["id"] for label in read(asking, "labels")].count(id) == 1)


class TestLabelStudio:
    @pytest.fixture
    def studio(self):
        with closing(StandIn()) as studio:
            yield studio

    @pytest.fixture
    def start(self, asking, streamboost_command):
        streamboost_command.environment["TOKEN"] = LEGACY

        def start(url):
            file = asking.folder / "p.toml"
            if "label_studio" not in file.read_text():
                file.write_text(file.read_text() + BRIDGE.format(url=url))
            return streamboost_command.start("label-studio", "job/p.toml")

        return start

    @pytest.mark.slow
    def test_while_a_server_does_not_answer_a_beginning(self, start):
        with socket.create_server(("127.0.0.1", 0)) as server:
            process = start(f"http://127.0.0.1:{server.getsockname()[1]}")
            with server.accept()[0] as connection:
                assert connection.recv(100).startswith(b"GET /api/projects/7/")
                assert "Traceback" not in stopped(process)

    @pytest.mark.slow
    def test_while_a_server_does_not_answer_an_import(self, start, studio):
        asked, may_answer = threading.Event(), threading.Event()

        def hang():
            asked.set()
            may_answer.wait()

        studio.faults.append(("POST", "/api/projects/7/import", hang))
        process = start(studio.url)
        assert asked.wait(60)
        said = stopped(process)
        may_answer.set()
        assert "Traceback" not in said
        assert "continues from there" in said
        made = studio.by_record()
        process = start(studio.url)
        lines(process, "people answer in")
        turns = len(studio.seen)
        until(lambda: len(studio.seen) > turns + 20)
        stopped(process)
        assert studio.by_record() == made, "no task is made twice"

    @pytest.mark.slow
    def test_while_somebody_else_holds_what_labels_are_written_to(self, start, studio, asking):
        process = start(studio.url)
        until(studio.by_record)
        id, (number,) = next(iter(studio.by_record().items()))
        with locked(asking):
            studio.annotate(number, "left")
            turns = len(studio.seen)
            until(lambda: len(studio.seen) > turns)
            assert "Traceback" not in stopped(process)
        process = start(studio.url)
        until(lambda: [label["id"] for label in read(asking, "labels")] == [id])
        stopped(process)
        assert [json.dumps(label["id"]) for label in read(asking, "labels")] == [f'"{id}"']
