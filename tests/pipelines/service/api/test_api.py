"""The API on a real server: fuzzed from its OpenAPI schema, and each guarantee separately."""

import json
import re
import sqlite3
from contextlib import closing

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from serving import TOKEN, put, read, site_of, some_records
from slow import slow

from streamboost.escaping import escape_line
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load

AS_PROGRAM = {"Authorization": f"Bearer {TOKEN}"}
ENDLESS = (1e9, 1e9)


@pytest.fixture
def schema(file):
    with site_of(file, reads=ENDLESS, writes=ENDLESS, failures=ENDLESS) as site:
        address = f"{site.url}/api/v1/openapi.json"
        yield schemathesis.openapi.from_url(address, headers=AS_PROGRAM)


@pytest.mark.parametrize("examples", [8, *slow(50)])
@pytest.mark.slow
def test_whatever_is_asked_the_answer_is_one_that_the_schema_describes(schema, examples):
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 15
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(max_examples=examples, deadline=None)
        def ask(case):
            # A schema cannot say which texts are a name, or a label that the pipeline can read.
            case.call_and_validate(headers=AS_PROGRAM, excluded_checks=[positive_data_acceptance])

        ask()


@pytest.fixture
def asking(file):
    """A program's client whose addresses begin at the pipeline, and where it asks."""
    with site_of(file) as site:
        program = site.program()
        program.base_url = f"{site.url}/api/v1/pipelines/test/"
        yield program, site


def test_what_was_posted_is_where_the_pipeline_reads_it_when_the_answer_comes(asking):
    program, site = asking
    records = [{"id": "n1", "a": 0.5, "b": None, "text": "new"}]
    assert program.post("records", json={"records": records}).json() == {"written": 1}
    assert read(site.served.config, "records")[-1:] == records
    label = {"id": "n1", "label": "left", "time": 7, "source": "bot"}
    assert program.post("labels", json={"labels": [label]}).json() == {"written": 1}
    assert read(site.served.config, "labels")[-1:] == [label]
    (entry,) = program.get("labelling/history").json()
    assert (entry["person"], entry["id"], entry["stage"]) == ("bot", "n1", "written")


USELESS_RECORDS = {
    '[{"id": "1", "a": 1}, {"a": 2}]': r"record 2 cannot be used \(missing_id\)",
    '[{"id": "1", "a": "wide"}]': r"record 1 cannot be used \(wrong_type\)",
    '[{"id": "1", "a": 1e999}]': "cannot be encoded as JSON",
    '[{"id": "1", "a": NaN}]': "cannot be encoded as JSON",
    '[{"id": "\\ud800", "a": 1}]': "cannot be encoded as JSON",
    f'[{{"id": "1", "x": "{"x" * 1_000_001}"}}]': "too_large",
    "[]": "at least 1",
}


def test_of_records_that_the_pipeline_could_not_use_none_is_written(asking):
    program, site = asking
    before = read(site.served.config, "records")
    headers = {"Content-Type": "application/json"}
    for records, reason in USELESS_RECORDS.items():
        answer = program.post("records", content=f'{{"records": {records}}}', headers=headers)
        assert answer.status_code == 422, records[:80]
        assert re.search(reason, answer.json()["detail"])
        assert read(site.served.config, "records") == before


def test_post_fails_soon_while_another_program_locks_the_labelling_file(asking):
    program, site = asking
    assert program.post("labelling/next").status_code == 200
    path = site.served.config.state / "labelling.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = program.post("labelling/next", timeout=15)
        assert answer.status_code == 503
        assert "labelling.db is locked by another process" in answer.json()["detail"]
        assert program.get("labelling/history", timeout=15).status_code == 200
    assert program.post("labelling/next").status_code == 200


def test_a_command_is_obeyed_with_the_next_batch(asking):
    program, site = asking
    assert program.post("commands", json={"command": "pause"}).json() == {"queued": "pause"}
    put(site.served.config, "records", some_records(20, start=5_000))
    run(load(site.served.config.folder / "p.toml"), until_idle=True)
    assert describe_pipeline(site.served.config.state)["checkpoint"]["committee"]["paused"]
    for wrong in ({"command": "rollback"}, {"command": "retrain", "version": 3}):
        assert program.post("commands", json=wrong).status_code == 422


def test_a_command_about_what_is_not_there_is_refused_unless_it_is_to_be_new(asking):
    program, site = asking
    known = site.served.status.document("learner")["known_classes"]
    typo = {"command": "merge", "label": known[0], "into": f"{known[1]}y"}
    answer = program.post("commands", json=typo)
    assert answer.status_code == 409
    assert f"did you mean '{known[1]}'?" in answer.json()["detail"]
    assert program.post("commands", json=typo | {"new": True}).status_code == 202
    answer = program.post("commands", json={"command": "rollback", "version": 12_345})
    assert answer.status_code == 409
    assert "version 12345 is not kept: there are " in answer.json()["detail"]
    assert program.post("commands", json={"command": "unmerge", "label": "x"}).status_code == 409


@pytest.mark.parametrize(
    "name",
    [
        *("B\x1b[31m", "B\u202e", "B\u200b", "B\u200d", "B\u2060", "B\u00ad", "B\U000e0041"),
        *(
            "B\ue000",
            "B\u0378",
            "B\ufe0f",
            "B\u00a0x",
            "B\u2028",
            "<b>B",
            "</b",
            "B&lt;",
            " B",
            "e\u0301",
        ),
    ],
)
@pytest.mark.quick_once
def test_command_with_unclear_name_of_new_class_is_refused(asking, name):
    program, site = asking
    known = site.served.status.document("learner")["known_classes"][0]
    for command in (
        {"command": "merge", "label": known, "into": name},
        {"command": "decide", "decision": {"threshold": {name: 0.9}}},
        {"command": "decide", "decision": {"costs": {known: {name: 2.0}}}},
    ):
        answer = program.post("commands", json=command | {"new": True})
        assert answer.status_code == 409, command
        assert "the new class" in answer.json()["detail"]
    assert not (site.served.config.state / "commands.db").exists()


@pytest.mark.parametrize("name", ["<=50K", ">50K", "AT&T", "Zoë", "山田", "a < b"])
def test_command_with_clear_name_of_new_class_is_queued(asking, name):
    program, site = asking
    known = site.served.status.document("learner")["known_classes"][0]
    command = {"command": "merge", "label": known, "into": name, "new": True}
    assert program.post("commands", json=command).status_code == 202


def test_versions_are_those_that_a_rollback_may_name(asking):
    program, site = asking
    kept = [version["version"] for version in program.get("versions").json()]
    assert kept == describe_pipeline(site.served.config.state)["checkpoint"]["versions"]
    assert kept


def test_an_operator_lets_others_in_and_each_has_a_record_of_their_own(asking):
    _, site = asking
    first = site.browser("ann", "operator")
    path = first.post("/api/v1/logins", json={"name": "ben"}).json()["path"]
    second = site.stranger(Origin=site.url)
    assert second.post(path).status_code == 303
    prefix = "/api/v1/pipelines/test/labelling"
    asked = [one.post(f"{prefix}/next").json()["request"]["id"] for one in (first, second)]
    assert asked[0] != asked[1]
    taken = first.post(f"{prefix}/answer", json={"id": asked[1], "label": "left"})
    assert taken.status_code == 409
    done = second.post(f"{prefix}/answer", json={"id": asked[1], "label": "left"}).json()
    assert (done["person"], done["stage"]) == ("ben", "held")
    assert second.post(f"{prefix}/undo").json()["id"] == asked[1]


def test_logins_of_a_name_with_a_slash_are_ended(site):
    program = site.program()
    assert program.post("/api/v1/logins", json={"name": "ann/bob"}).status_code == 201
    assert program.delete("/api/v1/logins/ann%2Fbob").json() == {"ended": 1}


@pytest.mark.parametrize("name", ["\ud800", "\x1b[31m\u202e"])
def test_decision_with_an_unprintable_class_is_refused_and_escaped(site, name):
    given = {"command": "decide", "decision": {"costs": {name: {name: 1}}}}
    answer = site.program().post(
        "/api/v1/pipelines/test/commands",
        content=json.dumps(given),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 422
    assert escape_line(name) in answer.json()["detail"]
