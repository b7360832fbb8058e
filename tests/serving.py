"""Helpers for tests of `serve`: pipeline files, and servers on real sockets."""

import json
import re
import signal
import ssl
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import httpx
import numpy as np
from fastapi import FastAPI, WebSocket
from waiting import until

from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.pipelines.app.serve import SESSIONS, ServeAddress, build_server
from streamboost.pipelines.service.app import create_app
from streamboost.pipelines.service.auth.settings import AuthSettings
from streamboost.pipelines.service.auth.users import Users
from streamboost.pipelines.service.labelling.served import ServedPipeline, find_config

TOKEN = "a token for tests alone"
SCORER = "a token that predicts alone"
TRUSTED = ssl.create_default_context()
"""Made once: reading the certificates takes longer than most tests."""
SCRIPT = "<script>alert(1)</script>"
PIPELINE = """
[pipeline]
name = "test"
batch_records = 20
[schema]
numeric = ["a", "b"]
[source]
connector = "sqlite"
stream = "records"
{more}
[committee]
n_estimators = 3
[query]
budget = 0.5
"""
FILES = '[labels]\nconnector = "files"\npath = "labels.jsonl"\nfollow = true'


def put(config, stream, messages):
    with closing(SqliteSink(config.state / "log.db", stream)) as sink:
        sink.write([json.dumps(message).encode() for message in messages])
        sink.flush()


def read(config, stream):
    with closing(SqliteSource(config.state / "log.db", stream)) as source:
        return [json.loads(message.payload) for message in source.poll(100_000)]


def some_records(n, start=0):
    values = np.random.default_rng(start).random((n, 2)).round(3).tolist()
    return [
        {"id": str(start + i), "a": a, "b": b, "text": f"{SCRIPT} {i}"}
        for i, (a, b) in enumerate(values)
    ]


def make_file(folder, more=""):
    folder.mkdir(exist_ok=True)
    file = folder / "p.toml"
    file.write_text(PIPELINE.format(more=more))
    return file


@dataclass
class Site:
    """A server, and those who come to it."""

    url: str
    served: ServedPipeline
    people: Users
    settings: AuthSettings
    app: FastAPI

    clients: list[httpx.Client] = field(default_factory=list)

    def program(self):
        """A client that has the token."""
        return self.stranger(Authorization=f"Bearer {TOKEN}")

    def scorer(self):
        """A client that has the token for predictions."""
        return self.stranger(Authorization=f"Bearer {SCORER}")

    def stranger(self, **headers):
        client = httpx.Client(base_url=self.url, headers=headers, timeout=60, verify=TRUSTED)
        self.clients.append(client)
        return self.clients[-1]

    def browser(self, name="ann", role="annotator"):
        """A client with a cookie, which it got by a login link."""
        client = self.stranger(Origin=self.url)
        assert (
            client.post(f"/login?key={self.people.create_login_link(name, role)}").status_code
            == 303
        )
        return client

    def cookie_of(self, browser):
        """Return the headers by which somebody else passes for `browser`."""
        name = self.settings.cookie_name
        return {"Cookie": f"{name}={browser.cookies[name]}", "Origin": self.url}

    def echo(self):
        """Return the address of a websocket that says what it is told."""
        self.app.add_api_websocket_route("/echo", echo)
        return self.url.replace("http", "ws") + "/echo"


async def echo(websocket: WebSocket):
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text)


@contextmanager
def site_of(file, place=None, **settings):
    place = place or ServeAddress(port=0)
    with place.listen() as listening:
        port = listening.getsockname()[1]
        known = AuthSettings(TOKEN, place.hosts, port, place.is_secure, **settings)
        served = ServedPipeline.from_config(find_config(file))
        people = Users(TOKEN, served.config.state / SESSIONS, scorer=SCORER)
        app = create_app([served], known, people)
        running = build_server(app, known, place)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        site = Site(place.url(port), served, people, known, app)
        try:
            until(lambda: running.started)
            yield site
        finally:
            for client in site.clients:
                client.close()
            running.should_exit = True
            thread.join()


class Serving:
    """A `serve` process, and a program that talks to it."""

    def __init__(self, command, *words):
        self.process = command.start("serve", *words, "--port", "0")
        self.said = self.process.stdout.readline() + self.process.stdout.readline()
        url, self.key = re.search(r": (\S+)/login\?key=(\S+)", self.said).groups()
        token = (command.folder / re.search(r"token in (\S+)", self.said)[1]).read_text().strip()
        self.client = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        until(self.answers)

    def answers(self):
        try:
            return self.client.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    def post(self, path, body=None, pipeline="test"):
        answer = self.client.post(f"/api/v1/pipelines/{pipeline}/{path}", json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.client.close()
