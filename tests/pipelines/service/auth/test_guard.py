"""The guard as a unit, message by message, and its rate and size limits."""

import asyncio
import time
from pathlib import Path

import pytest

from streamboost.errors import DataError
from streamboost.pipelines.service.auth.guard import Guard
from streamboost.pipelines.service.auth.sessions import SESSION_SECONDS, Sessions
from streamboost.pipelines.service.auth.settings import AuthSettings, RateLimiter
from streamboost.pipelines.service.auth.users import Users

TOKEN = [(b"authorization", b"Bearer secret"), (b"host", b"localhost")]


async def swallow(scope, receive, send):
    """An application that reads its body whole, and says how long it was."""
    length, more = 0, True
    while more:
        message = await receive()
        length += len(message["body"])
        more = message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(length).encode()})


def ask(guard, headers, body=(b"",), method="POST", path="/x", client="1.2.3.4"):
    """Return status, headers and body of the answer."""
    scope = {
        "type": "http", "method": method, "path": path, "headers": headers, "scheme": "http",
        "client": (client, 1), "query_string": b"",
    }  # fmt: skip
    parts, sent = list(body), []

    async def receive():
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message):
        sent.append(message)

    asyncio.run(guard(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), sent[-1]["body"]


def guard(app=swallow, **settings):
    known = AuthSettings("secret", **settings)
    return Guard(app, known, Users("secret", Path("nowhere")), RateLimiter(*known.failures))


@pytest.fixture
def people(tmp_path):
    return Users("secret", tmp_path)


def test_a_body_is_counted_as_it_comes_whatever_it_says_of_its_length():
    tight = guard(max_body=10)
    assert ask(tight, TOKEN, [b"12345", b"67890"])[::2] == (200, b"10")
    assert ask(tight, TOKEN, [b"12345", b"67890", b"1"])[0] == 413
    said = [*TOKEN, (b"content-length", b"5")]
    assert ask(tight, said, [b"12345", b"67890", b"1"])[0] == 413


def test_bodies_of_concurrent_requests_share_a_limit():
    answers = []

    async def nested(scope, receive, send):
        while (await receive())["more_body"]:
            pass
        if len(answers) < 3:
            answers.append(None)
            answers.append(await begin())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def begin():
        return await asyncio.to_thread(lambda: ask(shared, TOKEN, [b"12345", b"678"])[0])

    shared = guard(nested, max_body=10, max_concurrent_body=20)
    assert ask(shared, TOKEN, [b"12345", b"678"])[0] == 200
    assert answers == [None, None, 429, 200]
    assert ask(shared, TOKEN, [b"1234567890"])[0] == 200, "bodies of earlier requests do not count"


def test_bodies_of_a_person_are_read_at_a_limited_rate_and_those_of_programs_at_once(people):
    cookie = people.log_in(people.create_login_link("ann", "annotator"))
    known = AuthSettings("secret", bodies=(100, 10))
    slow = Guard(swallow, known, people, RateLimiter(*known.failures))
    person = [(b"cookie", f"{known.cookie_name}={cookie}".encode()), TOKEN[1]]
    person.append((b"origin", b"http://localhost"))
    start = time.monotonic()
    assert ask(slow, TOKEN, [b"1234567890"] * 5)[::2] == (200, b"50")
    assert ask(slow, person, [b"1234567890"])[::2] == (200, b"10"), "the burst"
    unhindered = time.monotonic() - start
    start = time.monotonic()
    assert ask(slow, person, [b"1234567890"] * 2)[::2] == (200, b"20")
    assert time.monotonic() - start >= 0.19 - unhindered


@pytest.mark.parametrize("length", [b"11", b"-1", b"1e1", b"99999999999999999999999", b""])
def test_a_length_that_is_too_large_or_none_is_refused_unread(length):
    async def never(scope, receive, send):
        raise AssertionError("it was let through")

    assert ask(guard(never, max_body=10), [*TOKEN, (b"content-length", length)])[0] == 413


def test_every_answer_tells_the_browser_to_keep_it_to_itself():
    for headers in (TOKEN, TOKEN[1:], []):
        _, answered, _ = ask(guard(), headers)
        assert answered[b"x-content-type-options"] == b"nosniff"
        assert answered[b"x-frame-options"] == b"DENY"
        assert answered[b"cross-origin-opener-policy"] == b"same-origin"
        assert answered[b"referrer-policy"] == b"same-origin"
        assert b"default-src 'none'" in answered[b"content-security-policy"]


def test_whoever_tries_too_many_secrets_waits_and_keeps_nobody_else_waiting():
    busy = guard(failures=(0.001, 3))
    wrong = [(b"authorization", b"Bearer wrong"), TOKEN[1]]
    assert [ask(busy, wrong)[0] for _ in range(4)] == [401, 401, 401, 429]
    assert int(ask(busy, wrong)[1][b"retry-after"]) > 100
    assert ask(busy, wrong, client="5.6.7.8")[0] == 401
    assert ask(busy, TOKEN)[0] == 200
    assert ask(busy, TOKEN[1:])[0] == 401, "who shows no secret has tried none"


def test_reading_and_writing_have_rates_of_their_own():
    busy = guard(writes=(0.001, 1), reads=(0.001, 2))
    assert [ask(busy, TOKEN)[0] for _ in range(2)] == [200, 429]
    assert [ask(busy, TOKEN, method="GET")[0] for _ in range(3)] == [200, 200, 429]


@pytest.mark.slow
def test_messages_on_a_websocket_wait_where_they_come_too_often(monkeypatch):
    slept, seen = [], []

    async def rest(seconds):
        slept.append(seconds)
        await real(0)

    async def count(scope, receive, send):
        while (await receive())["type"] == "websocket.receive":
            seen.append(len(slept))

    async def receive():
        return {"type": "websocket.receive" if len(seen) < 3 else "websocket.disconnect"}

    real = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", rest)
    scope = {"type": "websocket", "path": "/ws", "headers": TOKEN, "scheme": "ws"}
    asyncio.run(guard(count, messages=(1, 2))(scope, receive, None))
    assert seen[:2] == [0, 0]
    assert seen[2] > 0
    assert 0 < slept[0] <= 1


def test_a_rate_remembers_no_more_callers_than_it_may():
    rate = RateLimiter(1, 1, max_callers=2, clock=lambda: 0.0)
    assert [rate.take_token(caller) for caller in "aab"] == [0, 1, 0]
    assert rate.take_token("c") == 0  # evicts "a", whose rate is reset
    assert [rate.take_token(caller) for caller in "cba"] == [1, 1, 0]


def test_a_login_link_grows_old(tmp_path):
    now = [0.0]
    people = Users("secret", tmp_path, clock=lambda: now[0])
    key = people.create_login_link("ann", "annotator")
    now[0] = 24 * 3600
    assert people.log_in(key) is None


def test_a_cookie_is_good_across_a_restart_and_not_under_another_token(people, tmp_path):
    cookie = people.log_in(people.create_login_link("ann", "operator"))
    found = Users("secret", tmp_path).authenticate_cookie(cookie)
    assert (found.name, found.role) == ("ann", "operator")
    assert Users("other", tmp_path).authenticate_cookie(cookie) is None


def test_a_cookie_grows_old(tmp_path):
    now = [1_000_000.0]
    people = Users("secret", tmp_path, wall_clock=lambda: now[0])
    cookie = people.log_in(people.create_login_link("ann", "annotator"))
    now[0] += SESSION_SECONDS - 1
    assert people.authenticate_cookie(cookie).name == "ann"
    now[0] += 1
    assert people.authenticate_cookie(cookie) is None
    people.log_in(people.create_login_link("ben", "annotator"))
    assert len(list(tmp_path.iterdir())) == 1, "what is too old goes with the next login"


@pytest.mark.parametrize(
    "name",
    [
        *("", "  ", "a\nb", "x" * 101, "\x1b[31m", "an\u200bn", "\u202enna", "\u0430nn"),
        *("api", "API", "\uff21\uff30\uff29", "a\ufe0fnn", "a\u034fnn", "\u3164", "\u2800"),
        *(
            "<b>ann</b>",
            "ann<",
            "\uff1cb\uff1eann",
            "&lt;b&gt;",
            "&#60;",
            "&lt",
            "\u0430\uff4e\uff4e",
        ),
    ],
)
def test_nobody_is_called_what_cannot_be_read_or_looks_like_another(people, name):
    with pytest.raises(DataError, match="name"):
        people.create_login_link(name, "annotator")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        *[
            (" Zoe\u0308 ", "Zoë"),
            ("山田 たろう", "山田 たろう"),
            ("Άννα 2", "Άννα 2"),
            ("김", "김"),
        ],
        *[
            ("\uff21\uff4e\uff4e", "Ann"),
            ("山田\u3000たろう", "山田 たろう"),
            ("Ann  Lee", "Ann Lee"),
        ],
        *[("Tom & Ann", "Tom & Ann"), ("O'Neill (night)", "O'Neill (night)"), ("a@b.c", "a@b.c")],
    ],
)
def test_a_name_is_kept_in_one_form(people, given, kept):
    assert people.find_pending_login(people.create_login_link(given, "annotator")) == (
        kept,
        "annotator",
    )


ALIKE = [
    "Ann Lee",
    "ann lee",
    "ANN LEE",
    " Ann  Lee ",
    "\uff41\uff4e\uff4e\u3000\uff2c\uff45\uff45",
]


@pytest.mark.parametrize("first", ALIKE[:3])
def test_names_that_are_read_alike_are_one_person_in_the_spelling_that_came_first(people, first):
    people.log_in(people.create_login_link(first, "annotator"))
    keys = [people.create_login_link(name, "annotator") for name in ALIKE]
    assert {people.find_pending_login(key) for key in keys} == {(first, "annotator")}
    assert {people.canonical_name(name) for name in ALIKE} == {first}
    assert people.log_out_user("ann LEE") == 1 + len(ALIKE)
    assert people.valid_sessions() == []


def test_who_labelled_under_a_name_keeps_its_spelling_without_a_login(people):
    people.annotators = lambda: ["Ann", "ann", "<b>old</b>", "Zoë"]
    assert [people.canonical_name(name) for name in ("ann", "Ann", "ANN")] == ["ann", "Ann", "Ann"]
    assert people.canonical_name("ZOË") == "Zoë"


def test_a_login_from_before_names_were_checked_is_still_good_and_can_be_ended(people, tmp_path):
    cookie = Sessions(tmp_path, b"secret").create_session("<b>\uff41nn", "annotator")
    assert people.authenticate_cookie(cookie).name == "<b>\uff41nn"
    assert people.log_out_user("<b>ann") == 1
    assert people.authenticate_cookie(cookie) is None


def test_two_logins_under_one_name_are_two_seats(people):
    seats = {
        people.authenticate_cookie(people.log_in(people.create_login_link("ann", "annotator"))).seat
        for _ in "12"
    }
    assert len(seats) == 2


def test_a_login_ends_for_one_browser_or_for_all_that_somebody_has(people):
    cookies = [people.log_in(people.create_login_link("ann", "annotator")) for _ in range(3)]
    key = people.create_login_link("ann", "annotator")
    people.log_out(cookies[0])
    assert [people.authenticate_cookie(cookie) is None for cookie in cookies] == [
        True,
        False,
        False,
    ]
    assert people.log_out_user("ann") == 3
    assert people.valid_sessions() == []
    assert people.log_in(key) is None
    assert not any(map(people.authenticate_cookie, cookies))


@pytest.mark.parametrize(
    "damage", [b"", b"{}", b'{"name":"ann","role":"king","seat":"s","until":9e9}']
)
def test_a_damaged_login_is_none(people, tmp_path, damage):
    cookie = people.log_in(people.create_login_link("ann", "annotator"))
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage)
    assert people.authenticate_cookie(cookie) is None
    assert people.valid_sessions() == []


def test_browser_without_a_login_gets_a_page_with_the_status_401():
    host, browser = (b"host", b"localhost"), (b"accept", b"text/html,*/*;q=0.8")
    status, headers, body = ask(guard(), [host, browser], method="GET", path="/quality")
    assert status == 401
    assert headers[b"content-type"].startswith(b"text/html")
    nonce = body.split(b'<style nonce="')[1].split(b'"')[0]
    assert b"'nonce-" + nonce + b"'" in headers[b"content-security-policy"]
    assert b"Open a login link" in body
    for path, accepted in (("/quality", []), ("/api/v1/pipelines", [browser])):
        status, headers, _ = ask(guard(), [host, *accepted], method="GET", path=path)
        assert status == 401
        assert not headers[b"content-type"].startswith(b"text/html")
