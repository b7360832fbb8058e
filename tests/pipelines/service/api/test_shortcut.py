"""The fast path of predictions without FastAPI gives the same responses."""

import asyncio
import json

import pytest
from serving import site_of, some_records

from streamboost.pipelines.service.api.shortcut import PredictFastPath
from streamboost.pipelines.service.auth.users import SCORER

PATH = "/api/v1/pipelines/test/predict"
PLAIN, OTHER = "application/json", "application/json; charset=utf-8"
"""With the second, FastAPI answers."""
RECORD = {"a": 0.5, "b": 0.25}


def body_of(*records, **more):
    return json.dumps({"records": records, **more}).encode()


BODIES = {
    "a record": body_of(RECORD),
    "an id": body_of(RECORD | {"id": "x"}),
    "a number as id": body_of(RECORD | {"id": 7}),
    "a large id": body_of(RECORD | {"id": 10**25}),
    "a large number": body_of(RECORD | {"a": 10**25}),
    "what is too large": body_of(RECORD | {"a": 1e300}),
    "further fields": body_of(RECORD | {"text": "é", "nested": {"a": [1]}}),
    "a missing value": body_of({"a": None}),
    "a key twice": b'{"records": [], "records": [{"a": 1, "a": 2, "b": 1}]}',
    "UTF-16": body_of(RECORD).decode().encode("utf-16"),
    "several": body_of(RECORD, RECORD, {"a": "wide", "b": 1}),
    "no record": body_of(),
    "no records": b'{"record": []}',
    "more than records": body_of(RECORD, why="so"),
    "a list": b'[{"a": 1}]',
    "a number": b'{"records": 7}',
    "records that are none": body_of(RECORD, 7),
    "not a number": b'{"records": [{"a": NaN, "b": 1}]}',
    "no JSON": b'{"records": [{"a": 1',
    "no Unicode": b'{"records": [{"a": 1, "id": "\xff"}]}',
    "half a character": b'{"records": [{"a": 1, "id": "\\ud800"}]}',
    "a deep nest": b'{"records": [{"a": ' + b"[" * 1_900 + b"]" * 1_900 + b"}]}",
    "too many": b'{"records":[' + b",".join([b"{}"] * 1_001) + b"]}",
    "nothing": b"",
}


@pytest.fixture(scope="module")
def at_hand(file_of_module):
    """A site whose committee is loaded."""
    with site_of(file_of_module) as site:
        assert site.program().post(PATH, json={"records": [RECORD]}).status_code == 200
        yield site


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_is_asked_is_answered_alike_with_and_without_it(at_hand, body):
    program = at_hand.program()
    answers = [
        program.post(PATH, content=body, headers={"Content-Type": kind}) for kind in (PLAIN, OTHER)
    ]
    assert answers[0].status_code == answers[1].status_code
    assert answers[0].json() == answers[1].json()
    headers = [{**answer.headers, "date": ""} for answer in answers]
    for each in headers:
        each.pop("content-security-policy")
    assert headers[0] == headers[1]


def test_who_may_not_ask_is_refused_before_it(at_hand):
    body = body_of(RECORD)
    for client, status in ((at_hand.browser("ann"), 403), (at_hand.stranger(), 401)):
        answers = [
            client.post(PATH, content=body, headers={"Content-Type": kind})
            for kind in (PLAIN, OTHER)
        ]
        assert [answer.status_code for answer in answers] == [status, status]
        assert answers[0].json() == answers[1].json()
    other = at_hand.scorer().post(PATH.replace("test", "none"), json={"records": [RECORD]})
    assert other.status_code == 404


def test_a_body_in_parts_arrives_whole(at_hand):
    def parts():
        body = body_of(RECORD)
        yield body[:7]
        yield body[7:]

    program, headers = at_hand.program(), {"Content-Type": PLAIN}
    told = program.post(PATH, content=parts(), headers=headers)
    assert told.json() == program.post(PATH, json={"records": [RECORD]}).json()


def through(served, path, body, role=SCORER):
    """Return the status of a `PredictFastPath` response, None if it passes the request on."""
    sent, left = [], []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    async def rest(scope, receive, send):
        left.append(await receive())

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [(b"content-type", b"application/json")],
        "state": {"person": role},
    }
    asyncio.run(PredictFastPath(rest, {"test": served})(scope, receive, send))
    assert [one["body"] for one in left] in ([], [body])
    return sent[0]["status"] if sent else None


def test_it_answers_short_bodies_alone_and_once_a_committee_is_there(at_hand):
    short, long = body_of(RECORD), body_of(*some_records(200))
    assert through(at_hand.served, PATH, short) == 200
    assert through(at_hand.served, PATH, long) is None
    assert through(at_hand.served, PATH.replace("predict", "explain"), short) is None
    with at_hand.served.scoring._scoring:  # as while a thread scores what somebody else sent
        assert through(at_hand.served, PATH, short) is None
