"""Websocket messages of an authenticated client, over real connections."""

import json
import logging
import re

import httpx
import pytest
from serving import Serving
from websockets.sync.client import connect

from streamboost.pipelines.dashboard.sockets import shorten_traceback

MALFORMED = [
    *("garbage", "4garbage", "42[", "42{}", '42["handshake"]', '42["handshake",1]', "44x", "9", ""),
    *('42["handshake",{}]', b"\xff\xfe", b""),
]
TEXT_THAT_IS_NO_UTF_8 = b"\x81\x82\x00\x00\x00\x00\xff\xfe"


@pytest.fixture
def served(streamboost_command, file):
    serving = Serving(streamboost_command, str(file))
    yield serving
    serving.kill()


def valid_sessions(serving):
    """Return the address of a websocket of the pages, and the headers of a login."""
    site = str(serving.client.base_url).rstrip("/")
    answer = httpx.post(
        f"{site}/login", params={"key": serving.key}, headers={"Origin": site}, timeout=60
    )
    cookie = answer.headers["set-cookie"].partition(";")[0]
    address = f"{site.replace('http', 'ws')}/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    return address, {"Origin": site, "Cookie": cookie}


@pytest.mark.slow
def test_malformed_websocket_messages_are_logged_as_one_line_each(served):
    address, login = valid_sessions(served)
    lines = []
    for message in [*MALFORMED, None]:
        with connect(address, additional_headers=login, close_timeout=0.1) as websocket:
            websocket.recv(30)
            websocket.send("40")
            websocket.recv(30)
            if message is None:
                websocket.socket.sendall(TEXT_THAT_IS_NO_UTF_8)
            else:
                websocket.send(message)
            lines.append(served.process.stderr.readline())
    assert all(" WARNING [0] malformed websocket " in line for line in lines), lines


@pytest.mark.slow
def test_text_of_a_client_is_marked_and_shortened_in_the_log(served):
    address, login = valid_sessions(served)
    page = httpx.get(f"{served.client.base_url}/dead-letters", headers=login, timeout=60).text
    id, text = re.search(r"client_id': '([^']+)", page)[1], "the disk is full " * 1_000
    reported = ["log", {"client_id": id, "level": "error", "message": text}]
    with connect(address, additional_headers=login, close_timeout=0.1) as websocket:
        websocket.recv(30)
        websocket.send("40")
        shake = ["handshake", {"client_id": id, "tab_id": id, "document_id": id}]
        for event in (shake, reported, ["event", {"client_id": id, "id": 0, "listener_id": text}]):
            websocket.send(f"42{json.dumps(event)}")
        lines = [served.process.stderr.readline() for _ in range(2)]
    assert " WARNING [0] the browser of " in lines[0]
    assert " reports 'the disk is full " in lines[0]
    assert " WARNING [0] malformed websocket event: " in lines[1]
    assert max(map(len, lines)) < 500


@pytest.mark.slow
def test_websocket_serves_a_single_page(served):
    address, login = valid_sessions(served)
    site = str(served.client.base_url)
    with connect(address, additional_headers=login, close_timeout=0.1) as websocket:
        websocket.recv(30)
        websocket.send("40")
        for accepted in ("430[true]", "430[false]", "430[false]"):
            page = httpx.get(f"{site}/dead-letters", headers=login, timeout=60).text
            id = re.search(r"client_id': '([^']+)", page)[1]
            shake = ["handshake", {"client_id": id, "tab_id": id, "document_id": id}]
            websocket.send(f"420{json.dumps(shake)}")
            while not (answer := websocket.recv(30)).startswith("430"):
                pass
            assert answer == accepted


def test_an_error_that_was_never_raised_is_logged_as_it_is():
    error = ValueError("mine")
    given = (type(error), error, None)
    record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 1, "failed", (), given)
    assert shorten_traceback(record)
    assert (record.getMessage(), record.exc_info) == ("failed", given)
