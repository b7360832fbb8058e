"""Connection limits against denial of service, over real connections to a real server."""

import shutil
import socket
import ssl
import subprocess
from contextlib import ExitStack

import httpx
import pytest
from serving import site_of
from waiting import until
from websockets.sync.client import connect

from streamboost.pipelines.app.serve import ServeAddress

PREFIX = "/api/v1/pipelines/test"


def idle(site, n, source="127.0.0.1"):
    """Open connections that say nothing."""
    place = ("127.0.0.1", site.settings.port)
    return [socket.create_connection(place, 30, (source, 0)) for _ in range(n)]


def has_ended(connection):
    connection.settimeout(0.001)
    try:
        return connection.recv(4096) == b""
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
    with site_of(file, patience=600.0, max_unauthenticated=(40, 30)) as site:
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


@pytest.mark.parametrize("before", [b"", WHOLE], ids=["first request", "pipelined request"])
@pytest.mark.parametrize("pace", [b" ", b""], ids=["slow", "silent"])
def test_slow_body_of_annotator_ends_connection(file, closing, pace, before):
    with site_of(file, patience=0.2) as site:
        lines = [f"POST {PREFIX}/labels HTTP/1.1", "Host: localhost", "Content-Length: 9999"]
        cookie = site.cookie_of(site.browser()) | {"Origin": "http://localhost"}
        lines += [f"{name}: {value}" for name, value in cookie.items()]
        (slow,) = closing(idle(site, 1))
        slow.sendall(before + "\r\n".join([*lines, "", ""]).encode())

        def drip():
            try:
                slow.sendall(pace)
            except OSError:
                return True
            return has_ended(slow)

        until(drip)


@pytest.mark.parametrize("upgrade", [False, True], ids=["HTTP", "websocket"])
@pytest.mark.quick_once
def test_client_that_reads_nothing_is_disconnected(file, closing, upgrade):
    with site_of(file, patience=0.5) as site:
        host = f"Host: 127.0.0.1:{site.settings.port}"
        login = [f"{name}: {value}" for name, value in site.cookie_of(site.browser()).items()]
        (slow,) = closing(idle(site, 1))
        if upgrade:
            site.echo()
            lines = ["GET /echo HTTP/1.1", host, *login, "Connection: Upgrade"]
            lines += ["Upgrade: websocket", "Sec-WebSocket-Version: 13"]
            lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
            slow.sendall("\r\n".join([*lines, "", ""]).encode())
            assert slow.recv(12) == b"HTTP/1.1 101"
            unit = b"\x81\xff" + (1_000_000).to_bytes(8, "big") + bytes(4) + b"x" * 1_000_000
        else:
            lines = ["GET /api/v1/openapi.json HTTP/1.1", host, *login, "", ""]
            unit = "\r\n".join(lines).encode() * 400
        more = unit
        slow.settimeout(0.01)

        def is_refused():
            nonlocal more
            try:
                more = more[slow.send(more) :] or unit
            except TimeoutError:
                return False
            except OSError:
                return True
            return False

        until(is_refused)


def test_who_is_logged_in_is_no_stranger(file, closing):
    with site_of(file, patience=600.0, max_unauthenticated=(3, 3)) as site:
        program = site.program()
        assert program.get("/api/v1/pipelines").status_code == 200
        with connect(site.echo(), additional_headers=site.cookie_of(site.browser())) as websocket:
            closing(idle(site, 9))
            assert program.get("/api/v1/pipelines").status_code == 200
            websocket.send("still here")
            assert websocket.recv(30) == "still here"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate")
@pytest.mark.slow
def test_idle_connections_count_before_there_is_any_tls(file, closing, tmp_path):
    words = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key.pem"]
    subprocess.run([*words, "-out", tmp_path / "cert.pem"], check=True, capture_output=True)
    place = ServeAddress(port=0, certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem")
    with site_of(file, place, max_unauthenticated=(40, 30), patience=2.0) as site:
        kept = closing(idle(site, 50))
        kept[-1].sendall(b"GET / HTTP/1.1\r\n\r\n")  # what is no TLS ends
        until(lambda: sum(map(has_ended, kept)) >= 20)
        trusted = ssl.create_default_context(cafile=tmp_path / "cert.pem")
        assert httpx.get(f"{site.url}/healthz", verify=trusted, timeout=60).text == "yes\n"
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
        # On a loaded machine one more guess may be allowed between two of them.
        for other in ("198.51.100.2", "198.51.100.1, 198.51.100.3"):
            answers = {guess(other) for _ in range(3)}
            assert answers == {401} if proxy == "127.0.0.0/8" else 429 in answers


def test_behind_a_proxy_that_speaks_https_its_pages_are_its_own(file):
    with site_of(file, ServeAddress(port=0, proxy="127.0.0.1")) as site:
        own = site.url.replace("http", "https")
        browser = site.stranger(Origin=own, **{"X-Forwarded-Proto": "https"})
        answer = browser.post(f"/login?key={site.people.create_login_link('ann', 'annotator')}")
        assert answer.status_code == 303
        assert "; Secure" in answer.headers["set-cookie"]
        plain = {"X-Forwarded-Proto": "http"}
        assert browser.post("/logout", headers=plain).status_code in (401, 403)
