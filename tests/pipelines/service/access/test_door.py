"""The ways in that somebody found, tried again over real connections to a real server."""

import re
import shutil
import socket
import ssl
import subprocess
from contextlib import ExitStack

import httpx
import pytest
from fastapi import WebSocket
from fastapi.routing import APIRoute
from serving import Serving, read, site_of
from waiting import until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from streamboost.errors import ConfigurationError
from streamboost.pipelines.service import server
from streamboost.pipelines.service.server import ServeAddress

PREFIX = "/api/v1/pipelines/test"
LABELS = f"{PREFIX}/labels"


def idle(site, n, source="127.0.0.1"):
    """Open connections that say nothing."""
    place = ("127.0.0.1", site.settings.port)
    return [socket.create_connection(place, 30, (source, 0)) for _ in range(n)]


def has_ended(connection):
    connection.settimeout(0.001)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.fixture
def closing():
    with ExitStack() as stack:
        yield lambda connections: [stack.enter_context(one) for one in connections]


def test_520_idle_connections_shut_nobody_out(file, closing):
    with site_of(file, patience=600.0) as site:
        inside, program = site.browser(), site.program()
        kept = closing(idle(site, 520))
        until(lambda: sum(map(has_ended, kept)) == 420)
        assert [has_ended(one) for one in kept] == [True] * 420 + [False] * 100, "the newest stay"
        for path in ("/healthz", "/readyz"):
            assert site.stranger().get(path).status_code == 200
        assert inside.get("/api/v1/pipelines").status_code == 200
        assert program.get("/api/v1/pipelines").status_code == 200
        assert site.browser("ben").get(f"{PREFIX}/status").status_code == 200


def test_whoever_fills_the_room_from_many_addresses_crowds_out_themselves(file, closing):
    with site_of(file, patience=600.0, strangers=(40, 30)) as site:
        (honest,) = closing(idle(site, 1, "127.0.0.9"))
        for last in range(2, 6):
            closing(idle(site, 20, f"127.0.0.{last}"))
        honest.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert honest.recv(20).startswith(b"HTTP/1.1 200")


WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: local", WHOLE + b"GET"])
def test_a_connection_that_asks_nothing_whole_ends_in_time(file, closing, begun):
    with site_of(file, patience=0.2) as site:
        (slow,) = closing(idle(site, 1))
        slow.sendall(begun)
        until(lambda: has_ended(slow))


def test_a_body_that_trickles_in_after_its_refusal_ends_in_time(file, closing):
    with site_of(file, patience=0.2) as site:
        (slow,) = closing(idle(site, 1))
        slow.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n")

        def drip():
            try:
                slow.sendall(b"x")
            except OSError:
                return True
            return has_ended(slow)

        until(drip)


def test_who_is_logged_in_is_no_stranger(file, closing):
    with site_of(file, patience=600.0, strangers=(3, 3)) as site:
        program = site.program()
        assert program.get("/api/v1/pipelines").status_code == 200
        with connect(live(site), additional_headers=cookie_of(site, site.browser())) as websocket:
            closing(idle(site, 9))
            assert program.get("/api/v1/pipelines").status_code == 200
            websocket.send("still here")
            assert websocket.recv(30) == "still here"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate")
def test_idle_connections_count_before_there_is_any_tls(file, closing, tmp_path):
    words = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key.pem"]
    subprocess.run([*words, "-out", tmp_path / "cert.pem"], check=True, capture_output=True)
    place = ServeAddress(port=0, certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem")
    with site_of(file, place, strangers=(40, 30), patience=2.0) as site:
        kept = closing(idle(site, 50))
        kept[-1].sendall(b"GET / HTTP/1.1\r\n\r\n")  # what is no TLS ends
        until(lambda: sum(map(has_ended, kept)) >= 20)
        trusted = ssl.create_default_context(cafile=tmp_path / "cert.pem")
        assert httpx.get(f"{site.url}/healthz", verify=trusted).text == "yes\n"
        until(lambda: all(map(has_ended, kept)))


def test_requests_without_a_secret_lock_nobody_out(file):
    with site_of(file, failures=(0.001, 30)) as site:
        try_in_vain(site)


def try_in_vain(site):
    stranger = site.stranger()
    assert {stranger.get("/").status_code for _ in range(40)} == {401}
    wrong = site.stranger(Authorization="Bearer wrong")
    tried = [wrong.get("/").status_code for _ in range(32)]
    assert (tried[0], tried[-1]) == (401, 429), "only a secret that is none is counted"
    assert {stranger.get(f"/{path}").status_code for path in ("healthz", "readyz") * 16} == {200}
    assert site.stranger().get("/").status_code == 401
    assert site.program().get("/api/v1/pipelines").status_code == 200
    assert site.browser().get("/api/v1/pipelines").status_code == 200
    assert stranger.get("/login", params={"key": "wrong"}).status_code == 429


@pytest.mark.parametrize("proxy", [None, "192.0.2.1", "127.0.0.0/8"])
def test_a_forwarded_address_counts_where_a_proxy_is_named(file, proxy):
    with site_of(file, ServeAddress(port=0, proxy=proxy)) as site:

        def guess(address):
            secret = {"Authorization": "Bearer wrong", "X-Forwarded-For": f"10.9.9.9, {address}"}
            return site.stranger().get("/", headers=secret).status_code

        while guess("198.51.100.1") == 401:
            pass
        is_believed = proxy == "127.0.0.0/8"
        assert guess("198.51.100.2") == (401 if is_believed else 429)
        assert guess("198.51.100.1, 198.51.100.3") == (401 if is_believed else 429)


def test_behind_a_proxy_that_speaks_https_its_pages_are_its_own(file):
    with site_of(file, ServeAddress(port=0, proxy="127.0.0.1")) as site:
        own = site.url.replace("http", "https")
        browser = site.stranger(Origin=own, **{"X-Forwarded-Proto": "https"})
        answer = browser.post(f"/login?key={site.people.invite('ann', 'labeller')}")
        assert answer.status_code == 303
        assert "; Secure" in answer.headers["set-cookie"]
        plain = {"X-Forwarded-Proto": "http"}
        assert browser.post("/logout", headers=plain).status_code in (401, 403)


LABELLERS = {
    "POST labels", "POST labelling/next", "POST labelling/answer", "POST labelling/skip",
    "POST labelling/not-sure", "POST labelling/undo",
}  # fmt: skip
OPERATORS = {"POST records", "POST commands", "POST logins", "GET logins", "DELETE logins/{name}"}
OTHERS = {"GET openapi.json"}


def routes(site):
    """Every route of the API, as it is asked."""
    found = site.program().get("/api/v1/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, ways in found.items() for method in ways]


def short(method, path):
    path = path.removeprefix("/api/v1/").removeprefix("pipelines/{pipeline}/")
    return f"{method} {path}"


def test_nobody_a_labeller_and_an_operator_try_every_route(site):
    asked = routes(site)
    assert {short(*one) for one in asked} >= LABELLERS | OPERATORS
    nobody = site.stranger(Origin=site.url)
    labeller, operator = site.browser("ann"), site.browser("olga", "operator")
    before = read(site.served.config, "labels"), read(site.served.config, "records")
    for method, path in asked:
        at = path.replace("{pipeline}", "test").replace("{name}", "nobody")
        # An empty body is refused where somebody may come so far, and changes nothing.
        body = {} if method == "POST" and "next" not in path and "undo" not in path else None
        answers = [
            who.request(method, at, json=body).status_code for who in (nobody, labeller, operator)
        ]
        is_closed = short(method, path) in OPERATORS
        assert is_closed or method == "GET" or short(method, path) in LABELLERS, f"{path}: whose?"
        assert answers[0] == 401, path
        assert (answers[1] == 403) == is_closed, path
        assert answers[2] not in (401, 403), path
    assert (read(site.served.config, "labels"), read(site.served.config, "records")) == before


def test_every_route_that_changes_something_is_in_the_table_of_the_api(site):
    """What is no part of the API (pages, the way in) changes nothing but who is logged in."""
    further = {
        (method, route.path)
        for route in site.app.routes
        if isinstance(route, APIRoute) and not route.path.startswith("/api/")
        for method in route.methods - {"GET", "HEAD"}
    }
    assert further == {("POST", "/login"), ("POST", "/logout")}


def test_only_the_token_names_another_as_the_source_of_a_label(site):
    def post(who, **more):
        return who.post(LABELS, json={"labels": [{"id": "1", "label": "left"} | more]})

    for role in ("labeller", "operator"):
        browser = site.browser("ann", role)
        assert post(browser).status_code == 201
        assert post(browser, source="ann").status_code == 201
        refused = post(browser, source="ben")
        assert refused.status_code == 403
        assert "ann" in refused.json()["detail"]
    assert post(site.program(), source="ben").status_code == 201
    assert post(site.program(), source="b\u0435n").status_code == 422
    given = read(site.served.config, "labels")[-5:]
    assert [label["source"] for label in given] == ["ann"] * 4 + ["ben"]


def test_a_login_link_asks_before_it_logs_anybody_in(site):
    key = site.people.invite("<b>mallory</b>", "labeller")
    ann = site.browser("ann")
    page = ann.get("/login", params={"key": key})
    assert page.status_code == 200
    assert "Log in as &lt;b&gt;mallory&lt;/b&gt;?" in page.text
    assert "logged in as <bdi>ann</bdi>" in page.text
    assert "set-cookie" not in page.headers
    assert site.stranger().get("/login", params={"key": key}).status_code == 200, "it still works"
    elsewhere = {"Origin": "http://evil.example"}
    for headers in (elsewhere, {"Origin": "null"}):
        answer = ann.post("/login", params={"key": key}, headers=headers)
        assert answer.status_code == 403
        assert site.stranger(**headers).post("/login", params={"key": key}).status_code == 403
    assert site.stranger().post("/login", params={"key": key}).status_code == 403
    assert site.people.by_cookie(ann.cookies[site.settings.cookie]).name == "ann"


def test_who_logs_in_anew_is_logged_out_as_whoever_they_were(site):
    browser = site.browser("ann")
    before = browser.cookies[site.settings.cookie]
    browser.post("/login", params={"key": site.people.invite("ben", "labeller")})
    assert site.people.by_cookie(before) is None
    assert site.people.by_cookie(browser.cookies[site.settings.cookie]).name == "ben"


def cookie_of(site, browser):
    cookie = f"{site.settings.cookie}={browser.cookies[site.settings.cookie]}"
    return {"Cookie": cookie, "Origin": site.url}


async def echo(websocket: WebSocket):
    await websocket.accept()
    async for text in websocket.iter_text():
        await websocket.send_text(text)


def live(site):
    """Return the address of a websocket that says what it is told."""
    site.app.add_api_websocket_route("/echo", echo)
    return site.url.replace("http", "ws") + "/echo"


@pytest.mark.parametrize("way", ["button", "operator", "file"])
def test_a_cookie_is_worth_nothing_after_its_login_has_ended(site, way):
    browser = site.browser("ann")
    kept = cookie_of(site, browser)
    thief = site.stranger(**kept)
    assert thief.get("/api/v1/pipelines").status_code == 200
    with connect(live(site), additional_headers=kept) as websocket:
        websocket.send("hello")
        assert websocket.recv(30) == "hello"
        if way == "button":
            assert "Logged out" in browser.post("/logout").text
        elif way == "operator":
            ended = site.browser("olga", "operator").delete("/api/v1/logins/ann")
            assert ended.json() == {"ended": 1}
        else:
            for file in (site.served.config.state / server.SESSIONS).iterdir():
                file.unlink()
        assert thief.get("/api/v1/pipelines").status_code == 401
        websocket.send("hello")
        with pytest.raises(ConnectionClosed, match="1008"):
            websocket.recv(30)
    assert site.stranger(**kept).post(f"{PREFIX}/labelling/next").status_code == 401


def test_logins_outlast_a_restart_and_are_ended_from_outside(streamboost_command, file):
    first = Serving(streamboost_command, str(file))
    own = {"Origin": str(first.client.base_url).rstrip("/")}
    answer = httpx.post(f"{own['Origin']}/login", params={"key": first.key}, headers=own)
    name, cookie = re.match(r"([^=]+)=([^;]+)", answer.headers["set-cookie"]).groups()
    first.kill()
    second = Serving(streamboost_command, str(file))
    try:
        port = second.client.base_url.port
        cookies = {f"streamboost-{port}": cookie}  # ports are others here, cookies are not
        address = f"{second.client.base_url}/api/v1/pipelines"
        assert httpx.get(address, cookies=cookies).status_code == 200
        (who,) = second.client.get("/api/v1/logins").json()
        assert who["role"] == "operator"
        said, _ = streamboost_command("serve", str(file), "--log-out", who["name"])
        assert said == f"{who['name']}: 1 logins ended\n"
        assert httpx.get(address, cookies=cookies).status_code == 401
    finally:
        second.kill()
    folder = file.parent / "state" / server.SESSIONS
    assert folder.stat().st_mode & 0o777 == 0o700
    assert name.startswith("streamboost-")


def test_what_cannot_be_served_from_is_named_in_one_line(streamboost_command, file):
    tried = {
        "nosuch.pem": ("--certificate", "nosuch.pem", "--key", "nosuch.pem"),
        "not.a.host": ("--address", "not.a.host", "--allow-plain"),
        "here": ("--proxy", "here"),
    }
    for named, words in tried.items():
        _, said = streamboost_command("serve", str(file), "--port", "0", *words, code=2)
        assert named in said
        assert len(said.splitlines()) == 1
    with pytest.raises(ConfigurationError, match="PEM"):
        ServeAddress(port=0, certificate=file, key=file).listen()
