"""Login by a link with a confirmation, and logout by a button, in a real browser."""

import json
import re

import httpx
import pytest
from websockets.sync.client import connect

from streamboost.pipelines.dashboard.sockets import MOST_UNCONNECTED
from tests.pipelines.dashboard.in_browser.browsing import (
    DASHBOARD,
    assert_accessible,
    assert_fits,
    in_a_browser,
    text_of,
)

pytestmark = [*in_a_browser, pytest.mark.slow]


@pytest.fixture
def come(job, chromium):
    """Return a function that opens the login link of somebody in a browser of their own."""
    contexts = []

    def open_link(person, **options):
        contexts.append(chromium.new_context(**options))
        contexts[-1].set_default_timeout(60_000)
        page = contexts[-1].new_page()
        page.goto(job.links[person].pop())
        return page

    yield open_link
    for context in contexts:
        context.close()


def test_a_link_asks_and_a_button_ends_what_it_began(come):
    page = come("ann")
    assert text_of(page, "h1") == "Log in as ann?"
    page.get_by_role("button", name="Log in as ann").click()
    page.wait_for_selector("main .overview")
    assert text_of(page, ".person .who") == "ann"
    second = page.context.new_page()
    second.goto(page.url + "label?pipeline=segments")
    second.wait_for_selector("main h1")
    second.wait_for_function("() => window.did_handshake")
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Logged out").wait_for()
    assert page.context.cookies() == []
    second.wait_for_selector(".nicegui-error-popup, #popup", state="visible")
    assert second.goto(second.url).status == 401


def test_a_link_that_another_page_opens_replaces_nobody_unasked(come, job):
    page = come("ann")
    page.get_by_role("button", name="Log in as ann").click()
    page.wait_for_selector("main .overview")
    (before,) = page.context.cookies()
    address = job.links["bob"].pop()
    page.route(
        "http://evil.example/",
        lambda route: route.fulfill(
            content_type="text/html",
            body=f"<form method=post action='{address}'></form><script>"
            "document.forms[0].submit()</script>",
        ),
    )
    with page.expect_response(lambda answer: "/login" in answer.url) as told:
        page.goto("http://evil.example/")
    assert told.value.status == 403
    page.goto(address)
    assert text_of(page, "h1") == "Log in as bob?"
    assert page.context.cookies() == [before]
    page.get_by_role("button", name="Log in as bob").click()
    page.wait_for_selector("main .overview")
    assert text_of(page, ".person .who") == "bob, operator"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_that_asks_is_accessible_and_fits_a_phone(come, theme):
    page = come("ann", color_scheme=theme, bypass_csp=True)
    assert_accessible(page)
    assert_fits(page, f"login-{theme}")


RECORD = """() => {
  const send = window.socket.emit.bind(window.socket);
  window.kept = [];
  window.socket.emit = (name, ...given) =>
    name === "event" ? window.kept.push(given[0]) : send(name, ...given);
}"""
REPLAY = """(kept) => {
  for (const event of kept) window.socket.emit("event", event);
}"""
SHAKE = """([client_id]) => new Promise((done) => window.socket.emit(
  "handshake", {client_id, tab_id: "t", document_id: "d"}, done))"""


def test_a_page_obeys_the_login_that_opened_it_alone(visit):
    page, ann = visit("/versions?pipeline=segments", "bob"), visit(DASHBOARD)
    for one in (page, ann):
        one.wait_for_function("() => window.did_handshake")
    page.evaluate(RECORD)
    page.get_by_role("button", name="Retrain").click()
    kept = page.evaluate("window.kept")
    assert kept
    assert ann.evaluate(SHAKE, [kept[0]["client_id"]]) is False
    ann.evaluate(REPLAY, kept)
    ann.evaluate(SHAKE, [ann.evaluate("window.clientId")])  # all before it was looked at
    assert page.get_by_role("button", name="Yes, do it").count() == 0
    again = visit("/versions?pipeline=segments", "bob")
    again.wait_for_function("() => window.did_handshake")
    again.get_by_role("button", name="Retrain").click()
    again.get_by_role("button", name="Yes, do it").wait_for()


def test_what_a_client_sends_to_a_websocket_forges_no_line_of_the_log(visit, job):
    page = visit(DASHBOARD)
    site = page.url.partition("/?")[0]
    (cookie,) = page.context.cookies()
    login = {"Origin": site, "Cookie": f"{cookie['name']}={cookie['value']}"}
    address = f"{site}/_nicegui_ws/socket.io/?EIO=4&transport=websocket&sid=%1b[31mRED%0aFORGED"
    assert httpx.get(address, headers=login, timeout=60).status_code == 400
    (line,) = [
        line
        for line in (job.file.parent / "serve.log").read_text().splitlines()
        if "FORGED" in line
    ]
    assert "\\u001b[31mRED\\nFORGED" in line


PAGES = (
    *("/", "/quality", "/labelling", "/drift", "/operations"),
    *("/label", "/records", "/record", "/versions", "/features", "/dead-letters"),
)


def test_each_page_drops_the_oldest_page_without_connection(visit):
    page = visit(DASHBOARD)
    site = page.url.partition("/?")[0]
    (cookie,) = page.context.cookies()
    login = {"Origin": site, "Cookie": f"{cookie['name']}={cookie['value']}"}
    with httpx.Client(base_url=site, headers=login, timeout=60) as browser:

        def opened(path):
            text = browser.get(path, params={"pipeline": "segments"}).text
            return re.search(r"client_id': '([^']+)", text)[1]

        waiting = [opened("/dead-letters") for _ in range(MOST_UNCONNECTED + 1)]
        newest = []
        for path, oldest in zip(PAGES, waiting, strict=False):
            newest.append(opened(path))
            assert not is_there(site, login, oldest), path
    kept = [waiting[len(PAGES)], *newest]
    assert all(is_there(site, login, id) for id in kept)


def is_there(site, login, id):
    """Return whether the server still has the page `id`, by a websocket of Socket.IO."""
    url = site.replace("http", "ws") + "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    shake = ["handshake", {"client_id": id, "tab_id": id, "document_id": id}]
    with connect(url, additional_headers=login) as websocket:
        for said in ("40", f"420{json.dumps(shake)}"):
            websocket.recv(30)
            websocket.send(said)
        while not (answer := websocket.recv(30)).startswith("430"):
            pass
    return answer == "430[true]"
