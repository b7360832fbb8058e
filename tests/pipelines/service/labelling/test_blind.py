"""Blind labelling: the predicted label is hidden from annotators before they answer."""

import json
import sqlite3
from contextlib import ExitStack, closing, contextmanager

import httpx
import pytest
from serving import Serving, put, read, site_of

from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.served import SIMILAR
from streamboost.pipelines.service.labelling.store import LabellingEntry
from streamboost.pipelines.service.labelling.store import insert_entry as put_entry
from streamboost.pipelines.status.reader import StatusReader
from streamboost.pipelines.status.record_filter import RecordFilter

PREFIX = "/api/v1/pipelines/test"
GUESSES = {
    "label",
    "probabilities",
    "probability",
    "margin",
    "utility",
    "propensity",
    "version",
    "why",
}


@pytest.fixture
def blind(file):
    """A server; of some open requests, and some labelled ones, there is a guess."""
    file.write_text(file.read_text() + "[serve]\nblind = true\n")
    config = load(file)
    put(config, "labels", [{"id": id, "label": "left"} for id in guessed(config)[::2]])
    run(config, until_idle=True)
    with site_of(file) as found:
        yield found


def guessed(config):
    with closing(StatusReader(config.state)) as reader:
        return [one["id"] for one in reader.requests() if one["label"] is not None]


def asked_by(who, path, **more):
    answer = who.get(f"{PREFIX}/{path}", params=more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def next_for(who):
    return who.post(f"{PREFIX}/labelling/next").json()["request"]


def test_similar_requests_are_those_of_the_committee_and_not_for_a_blind_annotator(blind):
    ann, olga = User("ann", "1"), User("olga", "2", "operator")
    ids = blind.served.status.request_ids()
    found = [one["id"] for one in blind.served.similar_requests(olga, ids[1])]
    assert found[0] == ids[1]
    assert 2 <= len(found) <= SIMILAR
    assert set(found) <= set(ids)
    requests = {one["id"]: one["features"] for one in blind.served.status.requests()}
    first, *others = blind.served.scoring.similarities([requests[id] for id in found])
    assert first == 1.0
    assert others == sorted(others, reverse=True)
    assert blind.served.similar_requests(ann, ids[1]) == []
    blind.served.queue.lease_next(ann)
    assert ids[0] not in [one["id"] for one in blind.served.similar_requests(olga, ids[1])]


@pytest.mark.slow
def test_a_request_has_no_guess_for_a_annotator_until_they_have_answered(blind):
    ann, eve = blind.browser("ann"), blind.browser("eve")
    before = next_for(ann)
    assert not GUESSES & before.keys()
    assert before["hidden"] is True
    assert set(before["features"]) == {"a", "b"}
    id = guessed(blind.served.config)[0]
    of_it = asked_by(ann, "record", id=id)
    assert not GUESSES & of_it.keys()
    for one in asked_by(ann, "requests"):
        assert not GUESSES & one.keys()
    given = ann.post(f"{PREFIX}/labelling/answer", json={"id": id, "label": "left"})
    assert given.status_code == 200
    assert asked_by(ann, "record", id=id)["label"] in ("left", "right")
    assert not GUESSES & asked_by(eve, "record", id=id).keys(), "eve has not answered"
    ann.post(f"{PREFIX}/labelling/undo")
    assert not GUESSES & asked_by(ann, "record", id=id).keys(), "nor has ann any more"


def test_what_was_predicted_is_no_way_round(blind):
    ann = blind.browser("ann")
    assert asked_by(ann, "predictions") == []
    labelled = asked_by(ann, "judged")
    assert len(labelled) > len(guessed(blind.served.config))
    assert all(one["truth"] in ("left", "right") for one in labelled)
    assert not any(GUESSES & one.keys() for one in labelled)
    for label in ("left", "right"):
        assert asked_by(ann, "judged", predicted=label) == []
        assert asked_by(ann, "judged", true=label)


def test_operators_and_programs_see_all(blind):
    for who in (blind.browser("olga", "operator"), blind.program()):
        request = next_for(who)
        assert "utility" in request
        assert "hidden" not in request
        assert asked_by(who, "record", id=request["id"])["label"] == request["label"]
        assert asked_by(who, "requests")[0]["utility"] is not None
        assert asked_by(who, "predictions")
        assert {one["label"] for one in asked_by(who, "judged")} & {"left", "right"}


def test_where_it_is_not_blind_a_annotator_sees_the_guess(site):
    ann = site.browser("ann")
    assert "utility" in next_for(ann)
    assert asked_by(ann, "predictions")
    assert read(site.served.config, "requests")


def keys_of(found):
    """Every key of a document, at whatever depth, but for the features of records."""
    if isinstance(found, list):
        return set().union(*map(keys_of, found))
    if isinstance(found, dict):
        inner = (keys_of(value) for key, value in found.items() if key != "query")
        return {key for key in found if key != "query"}.union(*inner)
    return set()


def test_no_route_shows_a_blind_annotator_counts_of_predicted_classes(blind):
    ann, olga = blind.browser("ann"), blind.browser("olga", "operator")
    assert "classes" in asked_by(olga, "status")
    assert set(asked_by(ann, "status")) <= {
        *("pipeline", "learner", "ledger", "join", "lag", "latency", "workers")
    }
    assert asked_by(ann, "served_versions") == []
    for path in ("status", "points", "marks"):
        assert not {"predicted", "margins", "confusion"} & keys_of(asked_by(ann, path)), path


def test_every_further_field_of_a_document_is_hidden_by_default(blind):
    ann = blind.people.authenticate_cookie(blind.browser("ann").cookies[blind.settings.cookie_name])
    blindfold, status = blind.served.blind_mode, blind.served.status
    id = status.request_ids()[0]
    named = status.request(id) | {
        "excluded_annotators": ["ben"],
        "truth": "left",
        "labels": [],
        "added": 1,
    }
    (seen,) = blindfold.visible_records(ann, [named])
    assert set(seen) <= {
        *("id", "time", "features", "fields", "near", "asked", "arrived", "expires"),
        *("sequence", "hidden"),
    }
    assert not {"excluded_annotators", "truth", "labels", "added"} & seen.keys()
    assert "added" not in blindfold.visible_documents(ann, {"added": {}})
    assert blindfold.visible_points(ann, [{"id": 1, "added": 1}]) == [{"id": 1}]


@contextmanager
def browsing(streamboost_command, file):
    """Serve the pages of `file`; give a function that logs in."""
    serving = Serving(streamboost_command, str(file))
    site = str(serving.client.base_url).rstrip("/")
    with ExitStack() as stack:
        stack.callback(serving.kill)

        def come(name, role="annotator"):
            given = {"name": name, "role": role}
            path = serving.client.post("/api/v1/logins", json=given).json()["path"]
            browser = httpx.Client(base_url=site, headers={"Origin": site}, timeout=60)
            stack.enter_context(browser).post(path)
            return browser

        yield come


@pytest.mark.slow
def test_pages_show_a_blind_annotator_no_counts_and_no_label_of_a_requested_record(
    streamboost_command, blind
):
    file = blind.served.config.state.parent / "p.toml"
    put(blind.served.config, "labels", [{"id": "", "label": "secret", "source": "ben"}])
    run(load(file), until_idle=True)
    with closing(StatusReader(load(file).state)) as reader:
        *_, like = (one["id"] for one in reader.labelled_records(RecordFilter()))
    id, *_ = opened_again(file, 20)
    pages = {"/dead-letters": {}, "/record": {"id": like}, "/records": {"by": "ben"}}
    with browsing(streamboost_command, file) as come:
        ann, olga = come("ann"), come("olga", "operator")
        assert ann.get("/").headers["location"].startswith("/label?")
        for page in ("/versions", "/features"):
            assert ann.get(page).status_code == 403
        for page, query in (pages | {"/label": {}}).items():
            shown = ann.get(page, params=query)
            assert shown.status_code == 200, (page, shown.text[-3000:])
            assert "secret" not in shown.text, page
            assert page not in pages or "secret" in olga.get(page, params=query).text, page
        alone = ann.get("/record", params={"id": id})
        assert alone.status_code == 200
        assert "secret" not in alone.text
        for query in ({}, {"by": "ben"}, {"contested": "true"}, {"disputed": "true"}):
            listed = ann.get("/records", params=query)
            assert f"id={id}" not in listed.text
        counted = ann.get("/records", params={"true": "secret", "by": "ben"}).text
        assert "0 labelled records" in counted


def test_others_labels_are_hidden_of_a_record_that_is_requested(blind):
    ann = blind.people.authenticate_cookie(blind.browser("ann").cookies[blind.settings.cookie_name])
    olga_client = blind.browser("olga", "operator")
    olga = blind.people.authenticate_cookie(olga_client.cookies[blind.settings.cookie_name])
    blindfold, status = blind.served.blind_mode, blind.served.status
    requested, labelled = (
        status.request_ids()[0],
        status.labelled_records(RecordFilter(), limit=1)[0]["id"],
    )
    assert blindfold.hides_labels(ann, requested)
    assert not blindfold.hides_labels(ann, labelled)
    assert not blindfold.hides_labels(olga, requested)


def opened_again(file, most=1):
    """Have the newest labelled records requested again; return them, with ben's label each."""
    with closing(StatusReader(load(file).state)) as reader:
        found, like = reader.labelled_records(RecordFilter(), limit=most), reader.requests()
        path = reader.path
    with closing(sqlite3.connect(path)) as connection, connection:
        for one in found:
            labels = [[one["arrived"], "secret", "ben"]]
            value = {**like[0], "id": one["id"], "excluded_annotators": ["ben"], "near": []}
            kept = one | {"labels": labels, "again": 1, "excluded_annotators": ["ben"]}
            connection.execute(
                "INSERT INTO requests VALUES (?, 9, NULL, ?)", (one["id"], json.dumps(value))
            )
            connection.execute(
                "UPDATE records SET truth = 'secret', value = ? WHERE id = ?",
                (json.dumps(kept), one["id"]),
            )
        for one in like:
            near = [{"id": found[0]["id"], "label": "secret"}, {"id": "other", "label": "left"}]
            value = json.dumps(one | {"near": near})
            connection.execute("UPDATE requests SET value = ? WHERE id = ?", (value, one["id"]))
    return [one["id"] for one in found]


@pytest.fixture
def relabelled(blind):
    """The server, and the record whose label is "secret", as ben says, and is requested again."""
    (id,) = opened_again(blind.served.config.state.parent / "p.toml")
    return blind, id


READS = [
    *("status", "points", "marks", "predictions", "dead_letters", "judged", "requests"),
    *("served_versions", "versions", "labelling/history"),
]


def test_no_read_route_shows_others_label_of_a_requested_record(relabelled):
    site, id = relabelled
    ann, olga = site.browser("ann"), site.browser("olga", "operator")
    assert "secret" in json.dumps(asked_by(olga, "judged"))
    assert "secret" in json.dumps(asked_by(olga, "requests"))
    for path in READS:
        assert "secret" not in json.dumps(asked_by(ann, path)), path
    assert "secret" not in json.dumps(asked_by(ann, "record", id=id))
    assert "secret" not in json.dumps(next_for(ann))


@pytest.mark.slow
def test_who_answered_a_record_before_sees_no_other_label_of_it_once_requested(relabelled):
    site, id = relabelled
    ann = site.browser("ann")
    with site.served.queue._store.write_transaction() as connection:
        entry = LabellingEntry(0, 1, "ann", "seat", id, 0, "label", "left", "written")
        put_entry(connection, entry)
    assert asked_by(ann, "record", id=id)["label"] in ("left", "right"), "the guess was shown"
    for path in READS:
        found = json.dumps(asked_by(ann, path))
        assert "secret" not in found, path
        assert "excluded_annotators" not in found, path
    found = asked_by(ann, "record", id=id)
    assert "secret" not in json.dumps(found)
    assert not {"excluded_annotators", "again", "truth"} & found.keys()
    known = asked_by(site.browser("olga", "operator"), "record", id=id)
    assert {"excluded_annotators", "again", "truth"} <= known.keys(), "there is something to hide"


def test_lists_of_labelled_records_leave_out_those_that_are_requested(relabelled):
    site, id = relabelled
    ann, olga = site.browser("ann"), site.browser("olga", "operator")
    assert id in {one["id"] for one in asked_by(olga, "judged")}
    assert id not in {one["id"] for one in asked_by(ann, "judged")}
    assert len(asked_by(ann, "judged", limit=1)) == 1
    assert asked_by(ann, "judged", true="secret") == []


def test_a_limit_does_not_tell_how_many_were_predicted_as_a_class(blind):
    ann, (first, *_) = blind.browser("ann"), asked_by(blind.program(), "judged", predicted="left")
    last = asked_by(blind.program(), "judged", predicted="left")[-1]["id"]
    assert last != first["id"]
    with blind.served.queue._store.write_transaction() as connection:
        put_entry(
            connection, LabellingEntry(0, 1, "ann", "seat", last, 0, "label", "left", "written")
        )
    found = asked_by(ann, "judged", predicted="left", limit=1)
    assert [one["id"] for one in found] == [last]


def test_dead_letters_show_a_blind_annotator_no_label(blind):
    config = load(blind.served.config.state.parent / "p.toml")
    id = guessed(config)[0]
    labels = [{"id": id, "label": "secret\u200b", "source": "ben"}, {"id": id, "label": ["secret"]}]
    put(config, "labels", [*labels, {"id": "", "label": "secret"}])
    put(config, "records", [{"id": id, "a": 1, "b": 1, "label": "secret"}])
    run(config, until_idle=True)
    ann = blind.browser("ann")
    assert json.dumps(asked_by(blind.browser("olga", "operator"), "dead_letters")).count("secret")
    found = asked_by(ann, "dead_letters")
    assert [one["reason"] for one in found].count("duplicate_id") == 1
    assert len(found) == 4
    assert "secret" not in json.dumps(found)
    keys = {*("reason", "source", "time", "size", "position"), "hidden"}
    assert {*found[0]} == keys, "a further field is hidden by default"
