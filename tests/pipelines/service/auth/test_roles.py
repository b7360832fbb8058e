"""Permissions of anonymous clients, annotators and operators, on a real server."""

import re

import httpx
import pytest
from serving import Serving, read, site_of
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from streamboost.errors import ConfigurationError
from streamboost.pipelines.app import serve
from streamboost.pipelines.app.serve import ServeAddress

PREFIX = "/api/v1/pipelines/test"
LABELS = f"{PREFIX}/labels"

ANNOTATORS = {
    "POST labels", "POST labelling/next", "POST labelling/answer", "POST labelling/skip",
    "POST labelling/not-sure", "POST labelling/undo",
}  # fmt: skip
SCORERS = {"POST predict", "POST explain"}
OPERATORS = SCORERS | {
    "POST records", "POST commands", "POST logins", "GET logins", "DELETE logins/{name}",
    "GET export",
}  # fmt: skip
OTHERS = {"GET openapi.json"}


def routes(site):
    """Every route of the API, as it is asked."""
    found = site.program().get("/api/v1/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, ways in found.items() for method in ways]


def short(method, path):
    path = path.removeprefix("/api/v1/").removeprefix("pipelines/{pipeline}/")
    return f"{method} {path}"


def test_nobody_a_annotator_and_an_operator_try_every_route(site):
    asked = routes(site)
    assert {short(*one) for one in asked} >= ANNOTATORS | OPERATORS
    nobody = site.stranger(Origin=site.url)
    annotator, operator = site.browser("ann"), site.browser("olga", "operator")
    before = read(site.served.config, "labels"), read(site.served.config, "records")
    for method, path in asked:
        at = path.replace("{pipeline}", "test").replace("{name}", "nobody")
        # An empty body is refused where somebody may come so far, and changes nothing.
        body = {} if method == "POST" and "next" not in path and "undo" not in path else None
        answers = [
            who.request(method, at, json=body).status_code for who in (nobody, annotator, operator)
        ]
        is_closed = short(method, path) in OPERATORS
        assert is_closed or method == "GET" or short(method, path) in ANNOTATORS, f"{path}: whose?"
        assert answers[0] == 401, path
        assert (answers[1] == 403) == is_closed, path
        assert answers[2] not in (401, 403), path
    assert (read(site.served.config, "labels"), read(site.served.config, "records")) == before


@pytest.mark.slow
def test_the_token_for_predictions_opens_nothing_else(site):
    scorer = site.scorer()
    for method, path in routes(site):
        at = path.replace("{pipeline}", "test").replace("{name}", "nobody")
        answer = scorer.request(method, at, json={} if method == "POST" else None)
        assert answer.status_code == (422 if short(method, path) in SCORERS else 403), path
    assert scorer.get("/api/v1/openapi.json").status_code == 403
    for path in ("/_nicegui_ws/socket.io/predict", "/predict", "/records/explain"):
        assert scorer.get(path, params={"EIO": 4, "transport": "polling"}).status_code == 403


def test_nobody_is_let_in_as_a_scorer(site):
    given = {"name": "ann", "role": "scorer"}
    answer = site.program().post("/api/v1/logins", json=given)
    assert answer.status_code == 422
    assert "role" in answer.json()["detail"]


def test_only_the_token_names_another_as_the_source_of_a_label(site):
    asked = site.served.status.request_ids()[0]

    def post(who, **more):
        return who.post(LABELS, json={"labels": [{"id": asked, "label": "left"} | more]})

    for role in ("annotator", "operator"):
        browser = site.browser("ann", role)
        assert post(browser).status_code == 201
        assert post(browser, source="\uff21nn").status_code == 201
        refused = post(browser, source="ben")
        assert refused.status_code == 403
        assert "ann" in refused.json()["detail"]
    for source in ("Ben", "ANN", "\uff42\uff45\uff4e"):
        assert post(site.program(), source=source).status_code == 201
    for source in ("b\u0435n", "<b>ben</b>", "b\ten"):
        assert post(site.program(), source=source).status_code == 422
    given = read(site.served.config, "labels")[-7:]
    assert [label["source"] for label in given] == ["ann"] * 4 + ["Ben", "ann", "Ben"]


def test_a_annotator_writes_no_label_of_what_they_are_not_asked(site):
    ben, ann = site.browser("ben"), site.browser("ann")
    theirs = ben.post(f"{PREFIX}/labelling/next").json()["request"]["id"]
    before = read(site.served.config, "labels")
    for id in (theirs, "1", "nobody-asked"):
        given = ann.post(LABELS, json={"labels": [{"id": id, "label": "left"}]})
        assert given.status_code == 409
        assert id in given.json()["detail"]
    assert read(site.served.config, "labels") == before
    assert ben.post(LABELS, json={"labels": [{"id": theirs, "label": "left"}]}).status_code == 201


def test_a_login_link_asks_before_it_logs_anybody_in(site):
    key = site.people.create_login_link("mallory & co", "annotator")
    ann = site.browser("ann")
    page = ann.get("/login", params={"key": key})
    assert page.status_code == 200
    assert "Log in as mallory &amp; co?" in page.text
    assert "logged in as <bdi>ann</bdi>" in page.text
    assert "set-cookie" not in page.headers
    assert site.stranger().get("/login", params={"key": key}).status_code == 200, "it still works"
    elsewhere = {"Origin": "http://evil.example"}
    for headers in (elsewhere, {"Origin": "null"}):
        answer = ann.post("/login", params={"key": key}, headers=headers)
        assert answer.status_code == 403
        assert site.stranger(**headers).post("/login", params={"key": key}).status_code == 403
    assert site.stranger().post("/login", params={"key": key}).status_code == 403
    assert site.people.authenticate_cookie(ann.cookies[site.settings.cookie_name]).name == "ann"


def test_who_logs_in_anew_is_logged_out_as_whoever_they_were(site):
    browser = site.browser("ann")
    before = browser.cookies[site.settings.cookie_name]
    browser.post("/login", params={"key": site.people.create_login_link("ben", "annotator")})
    assert site.people.authenticate_cookie(before) is None
    assert site.people.authenticate_cookie(browser.cookies[site.settings.cookie_name]).name == "ben"


@pytest.mark.parametrize("way", ["button", "operator", "file"])
def test_a_cookie_is_worth_nothing_after_its_login_has_ended(site, way):
    browser = site.browser("ann")
    kept = site.cookie_of(browser)
    thief = site.stranger(**kept)
    assert thief.get("/api/v1/pipelines").status_code == 200
    with connect(site.echo(), additional_headers=kept) as websocket:
        websocket.send("hello")
        assert websocket.recv(30) == "hello"
        if way == "button":
            assert "Logged out" in browser.post("/logout").text
        elif way == "operator":
            ended = site.browser("olga", "operator").delete("/api/v1/logins/ann")
            assert ended.json() == {"ended": 1}
        else:
            for file in (site.served.config.state / serve.SESSIONS).iterdir():
                file.unlink()
        assert thief.get("/api/v1/pipelines").status_code == 401
        websocket.send("hello")
        with pytest.raises(ConnectionClosed, match="1008"):
            websocket.recv(30)
    assert site.stranger(**kept).post(f"{PREFIX}/labelling/next").status_code == 401


@pytest.mark.slow
def test_logins_outlast_a_restart_and_are_ended_from_outside(streamboost_command, file):
    first = Serving(streamboost_command, str(file))
    own = {"Origin": str(first.client.base_url).rstrip("/")}
    answer = httpx.post(
        f"{own['Origin']}/login", params={"key": first.key}, headers=own, timeout=60
    )
    name, cookie = re.match(r"([^=]+)=([^;]+)", answer.headers["set-cookie"]).groups()
    first.kill()
    second = Serving(streamboost_command, str(file))
    try:
        port = second.client.base_url.port
        cookies = {f"streamboost-{port}": cookie}  # ports are others here, cookies are not
        address = f"{second.client.base_url}/api/v1/pipelines"
        assert httpx.get(address, cookies=cookies, timeout=60).status_code == 200
        (who,) = second.client.get("/api/v1/logins").json()
        assert who["role"] == "operator"
        said, _ = streamboost_command("serve", str(file), "--log-out", who["name"])
        assert said == f"{who['name']}: 1 logins ended\n"
        assert httpx.get(address, cookies=cookies, timeout=60).status_code == 401
    finally:
        second.kill()
    folder = file.parent / "state" / serve.SESSIONS
    assert folder.stat().st_mode & 0o777 == 0o700
    assert name.startswith("streamboost-")


def test_what_cannot_be_served_from_is_named_in_one_line(streamboost_command, file):
    tried = {
        "nosuch.pem": ("--certificate", "nosuch.pem", "--key", "nosuch.pem"),
        "not.a.host": ("--host", "not.a.host", "--allow-insecure-http"),
        "here": ("--proxy", "here"),
    }
    for named, words in tried.items():
        _, said = streamboost_command("serve", str(file), "--port", "0", *words, code=2)
        assert named in said
        assert len(said.splitlines()) == 1
    with pytest.raises(ConfigurationError, match="PEM"):
        ServeAddress(port=0, certificate=file, key=file).listen()


LABELS_WRITTEN = {"cafe\u0301": "café", " left ": "left", True: "true", 7: "7"}
REFUSED_LABELS = ["left\u200b", "\u202eleft", "le\x00ft", "le\nft", "  ", None]


def test_a_label_is_tidied_or_refused_by_whichever_way_it_comes(site):
    browser, program = site.browser("ann", "operator"), site.program()
    for label, written in (*LABELS_WRITTEN.items(), *((label, None) for label in REFUSED_LABELS)):
        assert_written_by_every_way(site, browser, program, label, written)


def assert_written_by_every_way(site, browser, program, label, written):
    config, status = site.served.config, 422 if written is None else 201
    before = len(read(config, "labels"))
    for who in (browser, program):
        given = who.post(LABELS, json={"labels": [{"id": "1", "label": label}]})
        assert given.status_code == status
    asked = browser.post(f"{PREFIX}/labelling/next").json()["request"]["id"]
    answer = browser.post(f"{PREFIX}/labelling/answer", json={"id": asked, "label": label})
    assert answer.is_success == (status == 201)
    site.served.queue.write_due_labels(at_once=True)
    found = [one["label"] for one in read(config, "labels")[before:]]
    # The server may write what is due at the same moment, and then it is there twice.
    assert set(found) == ({written} - {None})
    assert written is None or len(found) >= 3
    if written is not None:
        assert answer.json()["label"] == written
        assert browser.get(f"{PREFIX}/labelling/history").json()[0]["label"] == written


def test_closed_classes_refuse_others_and_name_the_nearest(file):
    file.write_text(file.read_text().replace("[schema]", '[schema]\nclasses = ["left", "right"]'))
    with site_of(file) as site:
        given = site.browser().post(LABELS, json={"labels": [{"id": "1", "label": "Left"}]})
        assert given.status_code == 422
        assert "the nearest is 'left'" in given.json()["detail"]


def test_an_id_has_one_bound_wherever_it_is_given(site):
    program, long = site.program(), "x" * 1_001
    for path, body in (
        ("labels", {"labels": [{"id": long, "label": "left"}]}),
        ("records", {"records": [{"id": long, "a": 1.0}]}),
        ("labelling/answer", {"id": long, "label": "left"}),
        ("labelling/skip", {"id": long}),
    ):
        assert program.post(f"{PREFIX}/{path}", json=body).status_code == 422, path
    fits = {"labels": [{"id": long[1:], "label": "left"}]}
    assert program.post(f"{PREFIX}/labels", json=fits).status_code == 201
