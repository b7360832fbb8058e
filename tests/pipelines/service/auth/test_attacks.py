"""Attacks on a real server: each is refused with a message."""

import json
import socket

import pytest
from serving import SCRIPT, TOKEN, read, site_of
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

PATHS = ["/", "/label", "/_nicegui/static/x.js", "/api/v1/pipelines", "/api/v1/openapi.json"]
LABEL = {"labels": [{"id": "1", "label": "left"}]}
LABELS = "/api/v1/pipelines/test/labels"


@pytest.fixture(scope="module")
def site(file_of_module):
    with site_of(file_of_module, failures=(1e9, 1e9), max_body=100_000) as found:
        yield found


def test_without_a_token_nothing_is_told(site):
    for path in [*PATHS, "/nowhere", "/api/v1/pipelines/test/status"]:
        answer = site.stranger().get(path)
        assert answer.status_code == 401, path
        assert "test" not in answer.text


@pytest.mark.parametrize(
    "given",
    [
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer"},
        {"Authorization": b"Bearer \xff\xfe"},
        {"Cookie": f"streamboost-PORT={TOKEN}"},
        {"Cookie": "streamboost-PORT=WyJhbm4iLCJzZWF0Il0.aaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaa"},
        {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-User": "ann"},
    ],
)
def test_a_wrong_token_is_as_good_as_none(site, given):
    port = str(site.settings.port)
    headers = {k: v if isinstance(v, bytes) else v.replace("PORT", port) for k, v in given.items()}
    assert site.stranger(**headers).get("/api/v1/pipelines").status_code == 401


def test_a_login_link_works_once_and_its_cookie_is_for_browsers_alone(site):
    key = site.people.create_login_link("ann", "annotator")
    stranger = site.stranger(Origin=site.url)
    first = stranger.post("/login", params={"key": key})
    assert first.status_code == 303
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in first.text + cookie
    for method in ("GET", "POST"):
        again = site.stranger(Origin=site.url).request(method, "/login", params={"key": key})
        assert again.status_code == 401
    assert stranger.get("/api/v1/pipelines").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "a@localhost", "", "[::1"]
)
def test_another_host_name_is_refused_even_with_the_token(site, host):
    answer = site.program().get("/api/v1/pipelines", headers={"Host": host})
    assert answer.status_code == 400
    assert site.stranger(Host=host).get("/healthz").status_code == 400


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:99"])
def test_this_machine_may_be_called_by_its_names(site, host):
    assert site.program().get("/api/v1/pipelines", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", [None, "http://evil.example", "null", "https://127.0.0.1", ""])
@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH", "OPTIONS"])
def test_what_may_change_something_must_come_from_our_own_pages(site, method, origin):
    browser = site.browser()
    browser.headers.pop("Origin")
    headers = {} if origin is None else {"Origin": origin}
    before = read(site.served.config, "labels")
    answer = browser.request(method, LABELS, json=LABEL, headers=headers)
    assert answer.status_code == 403
    assert read(site.served.config, "labels") == before


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_a_script_from_elsewhere_reads_nothing_with_somebodys_cookie(site, origin):
    socket_io = "/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    for path in [*PATHS, socket_io]:
        answer = site.browser().get(path, headers={"Origin": origin})
        assert answer.status_code == 403, path
        assert "access-control-allow-origin" not in answer.headers
    assert site.browser().get(PATHS[-1]).status_code == 200
    assert site.program().get(PATHS[-1], headers={"Origin": origin}).status_code == 200


def test_our_own_pages_and_programs_may(file):
    with site_of(file) as site:
        assert site.browser("ann", "operator").post(LABELS, json=LABEL).status_code == 201
        assert site.program().post(LABELS, json=LABEL).status_code == 201
        assert site.browser().delete(LABELS).status_code == 405
        assert read(site.served.config, "labels")[-2:] == [
            {"id": "1", "label": "left", "source": "ann"},
            {"id": "1", "label": "left", "source": "api"},
        ]


def test_a_websocket_needs_the_token_and_our_own_origin(site):
    url = site.url.replace("http", "ws") + "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    cookie = "; ".join(f"{k}={v}" for k, v in site.browser().cookies.items())
    tried = [
        {},
        {"Origin": site.url},
        {"Cookie": cookie},
        {"Cookie": cookie, "Origin": "http://evil.example"},
    ]
    for headers in tried:
        with pytest.raises(InvalidStatus, match="403"), connect(url, additional_headers=headers):
            pass
    place = ("127.0.0.1", site.settings.port)
    token = {"Authorization": f"Bearer {TOKEN}"}
    with (
        socket.create_connection(place) as connection,
        pytest.raises(InvalidStatus, match="403"),
        connect("ws://evil.example/", sock=connection, additional_headers=token),
    ):
        pass


def test_websocket_messages_have_a_limit_of_their_own(site):
    headers = site.cookie_of(site.browser())
    with connect(site.echo(), additional_headers=headers, max_size=None) as websocket:
        within = "x" * site.settings.max_message
        assert len(within) > site.settings.max_body
        websocket.send(within)
        assert websocket.recv(30) == within
        websocket.send(within + "x")
        with pytest.raises(ConnectionClosed, match="1009"):
            websocket.recv(30)


def raw(site, request):
    """Send bytes that no client library would, and return all that is answered."""
    with socket.create_connection(("127.0.0.1", site.settings.port), timeout=30) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65_536):
            answer += part
    return answer


def asking(site, path, more=b"", token=TOKEN):
    return (
        b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Authorization: Bearer " + token.encode() + b"\r\n" + more + b"\r\n"
    )


@pytest.mark.parametrize(
    "path",
    [
        b"/../../../../etc/passwd",
        b"/_nicegui/../../../../etc/passwd",
        b"/..%2f..%2f..%2fetc/passwd",
        b"/%2e%2e/%2e%2e/etc/passwd",
        b"/api/v1/pipelines/..%2f..%2fetc%2fpasswd/status",
        b"/api/v1/pipelines/../../../state/serve.token",
        b"//etc/passwd",
        b"/api/v1/pipelines/test%00/status",
    ],
)
def test_no_path_leads_out(site, path):
    answer = raw(site, asking(site, path))
    assert answer.split()[1] in (b"404", b"400")
    assert b"root:" not in answer
    assert TOKEN.encode() not in answer
    assert raw(site, asking(site, path, token="wrong")).split()[1] in (b"401", b"400")


def test_a_body_of_100_mb_is_refused_unread(site):
    head = f"POST {LABELS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    answer = raw(site, f"{head}Content-Length: 100000000\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("line", [f"POST {LABELS}", "POST /nowhere", "GET /healthz", "GET /login"])
@pytest.mark.parametrize("token", [TOKEN, "wrong"])
def test_a_body_that_never_ends_is_cut_off(site, line, token):
    head = f"{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
    chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", site.settings.port), timeout=30) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        with pytest.raises(ConnectionError):
            connection.sendall(3_000 * chunk)


def test_script_in_a_record_comes_out_as_text_in_json_alone(site):
    answer = site.program().get("/api/v1/pipelines/test/requests")
    assert SCRIPT in answer.json()[0]["fields"]["text"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /login?key=%0d%0aSet-Cookie:%20a=b HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /%0d%0aSet-Cookie:%20a=b HTTP/1.1\r\nHost: localhost\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: b\nSet-Cookie: a=b\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n",
    ],
)
def test_nothing_that_was_sent_becomes_a_header(site, request_):
    head = raw(site, request_ + b"Connection: close\r\n\r\n").partition(b"\r\n\r\n")[0].lower()
    assert head.split()[1] in (b"400", b"401")
    assert b"set-cookie" not in head


def test_a_command_takes_nothing_but_its_words(site):
    for more in (
        {"path": "/etc/passwd"},
        {"topic": "others"},
        {"version": "1; rm"},
        {"state": "/"},
    ):
        answer = site.program().post(
            "/api/v1/pipelines/test/commands", json={"command": "pause"} | more
        )
        assert answer.status_code == 422
    for path in ("labels", "records"):
        body = {path: [{"id": "1", "label": "a", "a": 1.0}], "stream": "others"}
        answer = site.program().post(f"/api/v1/pipelines/test/{path}", json=body)
        assert answer.status_code == 422


def test_unknown_fields_of_a_body_are_one_error(site):
    many = {f"x{number}": 1 for number in range(1_000)}
    for path, body in (
        ("pipelines/test/labels", {"labels": [{"id": "1", "label": "a"}]}),
        ("pipelines/test/labels", {"labels": [{"id": "1", "label": "a"} | many]}),
        ("pipelines/test/labelling/skip", {"id": "1"}),
        ("pipelines/test/predict", {"records": [{}]}),
        ("logins", {"name": "ann"}),
        ("pipelines/test/commands", {"command": "pause", "decision": many}),
    ):
        answer = site.program().post(f"/api/v1/{path}", json=body | many)
        assert answer.status_code == 422
        assert answer.json()["detail"].count(": ") == 2, "a field and what to do"
        assert "x0" in answer.json()["detail"]


def test_health_and_readiness_say_yes_to_anybody_and_nothing_else(site):
    for path in ("/healthz", "/readyz"):
        answer = site.stranger().get(path)
        assert (answer.status_code, answer.text) == (200, "yes\n")
        assert site.stranger().post(path).status_code == 401


def test_what_does_not_read_as_json_is_refused(site):
    for body in (b"{", b"[" * 100_000, b"\xff", b'{"labels": NaN}', json.dumps(LABEL).encode() * 2):
        headers = {"Content-Type": "application/json"}
        answer = site.program().post(LABELS, content=body, headers=headers)
        assert answer.status_code in (400, 413, 422), body[:10]
