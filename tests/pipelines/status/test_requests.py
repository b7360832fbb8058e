"""Open requests in the status: exact after restarts and expiry."""

import json

import pytest

from streamboost.pipelines.runner.replay import recover
from streamboost.pipelines.status import requests as open_requests
from streamboost.pipelines.status.file import FILE
from streamboost.pipelines.status.requests import decode_fields_except
from streamboost.query.strategies import UTILITIES
from tests.pipelines.publishing import answer, open_in, published, run


@pytest.mark.slow
def test_open_requests_are_shown_exactly_with_the_records_other_fields(grown, tmp_path, reader):
    world, truth = grown
    with published(world.loop, tmp_path):
        world.run()
        sent = {request["id"]: request for request in world.read("requests")}
        answered = sorted(open_in(world))[:5]
        answer(world, truth, map(int, answered))
        world.run()
    requests = reader.requests()
    assert {request["id"] for request in requests} == open_in(world)
    assert not set(answered) & open_in(world)
    for request in requests:
        fields, near = request.pop("fields"), request.pop("near")
        assert [one["label"] for one in near] == [truth[int(one["id"])] for one in near]
        assert len(near) == 3
        assert request == sent[request["id"]]
        assert fields == {"text": f"This is record {request['id']}."}
    utilities = [request["utility"] for request in requests]
    assert utilities == sorted(utilities, reverse=True)


def test_requests_that_expire_are_not_shown_any_more(make_world, make_records, tmp_path, reader):
    world = make_world(expires_after=20)
    records = make_records(100)[0]
    for start in range(0, 100, 10):
        world.feed(records[start : start + 10])
        run(world, tmp_path)
    shown = {request["id"] for request in reader.requests()}
    assert shown == open_in(world)
    assert shown < {request["id"] for request in world.read("requests")}


def test_a_pool_asks_with_the_fields_of_records_that_came_batches_ago(
    make_world, make_records, tmp_path, reader
):
    query = {"mode": "pool", "window": 40, "query_batch_size": 5}
    world = make_world(query=query, expires_after=10_000)
    records, _ = make_records(200)
    for record in records:
        record["text"] = f"This is record {record['id']}."
    world.feed(records)
    run(world, tmp_path)
    requests = reader.requests()
    assert {request["id"] for request in requests} == open_in(world)
    assert len(requests) > 20
    assert all(r["fields"] == {"text": f"This is record {r['id']}."} for r in requests)


def replayed(world, folder):
    """Return a fresh loop whose pipeline has replayed the journal, and then worked on."""
    loop = world.fresh()
    with published(loop, folder):
        recover(loop, None, world.pipeline.sequence)
        loop.run(until_idle=True)
    return loop


@pytest.mark.parametrize("left", ["all", "nothing", "older"])
@pytest.mark.quick_once
def test_a_restart_shows_the_requests_that_are_open_whatever_the_last_run_left(
    grown, tmp_path, reader, left
):
    world, truth = grown
    path = tmp_path / FILE
    with published(world.loop, tmp_path):
        world.run()
    if left == "nothing":
        path.unlink()
    else:
        before = path.read_bytes()
        answer(world, truth, map(int, sorted(open_in(world))[:7]))
        if left == "older":
            world.run()  # unpublished, as before a kill
            path.write_bytes(before)
    loop = replayed(world, tmp_path)
    requests = reader.requests()
    assert {request["id"] for request in requests} == set(loop.pipeline.join.open_requests)
    assert all(r["fields"] == {"text": f"This is record {r['id']}."} for r in requests)


def test_a_request_that_no_message_is_at_hand_for_is_made_anew(grown, tmp_path, reader):
    world, _ = grown
    world.run()
    sent = {request["id"]: request for request in world.read("requests")}
    run(world, tmp_path)
    requests = reader.requests()
    assert {request["id"] for request in requests} == open_in(world) != set()
    for request in requests:
        assert request["fields"] == {}
        for key in ("features", "propensity", "expires", "time"):
            assert request[key] == sent[request["id"]][key]
        assert 0.0 < request["utility"] <= 1.0
        assert sum(request["probabilities"].values()) == pytest.approx(1.0)


@pytest.mark.parametrize("utility", UTILITIES)
@pytest.mark.quick_once
def test_a_request_made_anew_has_the_utility_it_had_on_arrival(
    make_world, make_records, tmp_path, reader, utility
):
    world = make_world(query={"strategy": utility}, expires_after=10_000)
    records, truth = make_records(300)
    world.feed(records[:150])
    answer(world, truth, range(120))
    world.run()
    world.tell("pause")  # the committee stays as it is
    world.feed(records[150:])
    world.run()
    paused = next(entry.sequence for entry in world.entries() if entry.commands)
    sent = {r["id"]: r["utility"] for r in world.read("requests") if r["sequence"] >= paused}
    run(world, tmp_path)
    anew = {r["id"]: r["utility"] for r in reader.requests() if r["id"] in sent}
    assert len(anew) > 10
    assert anew == pytest.approx({id: sent[id] for id in anew})


@pytest.mark.slow
def test_further_fields_are_bounded_and_never_the_answer(monkeypatch, grown, tmp_path, reader):
    monkeypatch.setattr(open_requests, "MOST_BYTES", 2_000)
    many = {f"f{i}": i for i in range(300)}
    record = many | {"id": "1", "a": 0.5, "label": "left", "text": "x" * 50_000, "deep": [{}]}
    fields = decode_fields_except(
        json.dumps({"text": record.pop("text"), **record}).encode(), {"id", "a"}
    )
    assert len(fields) == 100
    assert len(fields["text"]) == 10_000
    assert not {"id", "a", "label"} & fields.keys()
    world, _ = grown
    run(world, tmp_path)
    kept = [request["fields"] for request in reader.requests()]
    assert {"text"} in [fields.keys() for fields in kept]
    assert {} in kept
    whole = [request for request in reader.requests() if request["fields"]]
    assert sum(len(json.dumps(request)) for request in whole) < 3_000


@pytest.mark.parametrize("payload", [b"", b"[]", b"{", b'{"a": 1}', b'{"a":' + b"[" * 10_000])
def test_further_fields_of_any_bytes_can_be_told(payload):
    assert decode_fields_except(payload, {"a"}) == {}


def test_what_lies_beside_a_feature_in_an_object_is_shown_by_its_path():
    payload = json.dumps({"device": {"os": "ios", "name": "x"}, "tags": {"a": 1}}).encode()
    fields = decode_fields_except(payload, {"device.os"})
    assert fields == {"tags": '{"a":1}', "device.name": "x"}


def test_a_field_that_the_file_gained_is_a_feature_and_not_a_further_field_too(
    make_world, make_records, tmp_path, reader
):
    world = make_world(fields={"a": "number", "b": "number"}, expires_after=400)
    records, truth = make_records(60)
    world.feed(records[:30])
    run(world, tmp_path)
    world.pipeline.journal_extras.fields = {"late": "number"}
    world.feed([record | {"late": 7.5} for record in records[30:]])
    with published(world.loop, tmp_path):
        world.run()
        unasked = sorted({str(i) for i in range(30, 60)} - open_in(world))
        answer(world, truth, map(int, unasked))
        world.run()
    asked = [one for one in reader.requests() if int(one["id"]) >= 30]
    judged = [reader.labelled_record(id) for id in unasked]
    assert asked
    assert [one["features"]["late"] for one in (*asked, *judged)] == [7.5] * len((*asked, *judged))
    assert not any("late" in one["fields"] for one in (*asked, *judged))
