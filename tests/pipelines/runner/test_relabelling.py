"""Relabel requests for labels that look wrong, through a whole pipeline."""

import numpy as np
import pytest

from streamboost.pipelines.runner.replay import recover
from tests.pipelines.conftest import make_records

PEOPLE = ("ann", "bob", "cid", "dan", "eve")


def made(make_world, **more):
    query = {"relabel": 0.2, "strategy": "random"}
    return make_world(window=100, expires_after=100, rounds=10, query=query, **more)


def streamed(world, n=400, answers=True, **more):
    """Feed records, answering every request; dan and eve are wrong half the time."""
    records, truth = make_records(n)
    records = [record | more for record in records]
    rng, answered = np.random.default_rng(3), 0
    for start in range(0, n, 10):
        world.feed(records[start : start + 10])
        world.run()
        requests = world.read("requests")
        for request in requests[answered:]:
            again = "excluded_annotators" in request
            if answers or not again:
                world.feed(labels=[answer(rng, request, truth)])
        answered = len(requests)
        world.run()
    return truth


def answer(rng, request, truth):
    who = str(
        rng.choice([name for name in PEOPLE if name not in request.get("excluded_annotators", ())])
    )
    label = truth[int(request["id"])]
    if who in ("dan", "eve") and rng.random() < 0.5:
        label = "left" if label == "right" else "right"
    return {"id": request["id"], "label": label, "source": who}


def test_a_request_about_a_label_names_who_must_not_answer_and_shows_the_record(make_world):
    world = made(make_world)
    streamed(world)
    requests = world.read("requests")
    again = [request for request in requests if "excluded_annotators" in request]
    first = {request["id"] for request in requests if "excluded_annotators" not in request}
    assert len(again) > 10
    assert all(request["id"] in first for request in again)
    assert all(
        request["excluded_annotators"] and set(request["features"]) == {"a", "b"}
        for request in again
    )
    ledger = world.pipeline.learner.ledger
    assert (ledger.requests, ledger.again) == (len(requests), len(again))
    assert ledger.requests <= 0.5 * ledger.records
    assert ledger.pending == len(world.pipeline.join.open_requests)
    counts = world.pipeline.join.counts
    assert counts.corrected + counts.duplicate == len(again)
    assert set(world.pipeline.counters()["annotators"]) == set(PEOPLE)


@pytest.mark.slow
def test_who_is_not_asked_is_remembered_while_the_request_is_open(make_world):
    world = made(make_world)
    streamed(world, n=400, answers=False)
    arrays, manifest = world.loop.snapshot()
    moved = world.fresh()
    moved.restore(arrays, manifest)
    ours, theirs = (one.pipeline.join.open_requests for one in (world.loop, moved))
    named = {
        id: request.excluded_annotators
        for id, request in ours.items()
        if request.excluded_annotators
    }
    assert named
    assert {
        id: request.excluded_annotators
        for id, request in theirs.items()
        if request.excluded_annotators
    } == named


@pytest.mark.slow
def test_the_same_label_again_of_whoever_must_not_answer_leaves_the_request_open(make_world):
    world = made(make_world)
    streamed(world, n=400, answers=False)
    learner, join = world.pipeline.learner, world.pipeline.join
    id, request = next(
        (id, request) for id, request in join.open_requests.items() if request.excluded_annotators
    )
    answered, author = learner.ledger.answered, request.excluded_annotators[0]
    label = learner.label_of(id)
    world.feed(labels=[{"id": id, "label": label, "source": author}])
    world.run()
    assert id in join.open_requests
    assert learner.ledger.answered == answered
    assert learner.ledger.pending == len(join.open_requests)
    other = next(name for name in PEOPLE if name not in request.excluded_annotators)
    world.feed(labels=[{"id": id, "label": label, "source": other}])
    world.run()
    assert id not in join.open_requests
    assert learner.ledger.answered == answered + 1


@pytest.mark.slow
def test_a_label_that_nobody_confirmed_in_time_stays(make_world):
    world = made(make_world)
    truth = streamed(world, n=400, answers=False)
    learner, join = world.pipeline.learner, world.pipeline.join
    opened = [
        request["id"] for request in world.read("requests") if "excluded_annotators" in request
    ]
    before = {id: learner.label_of(id) for id in opened}
    records, _ = make_records(150, start=len(truth))
    world.pass_by(records)
    assert learner.ledger.expired >= len(opened)
    assert {id: learner.label_of(id) for id in opened} == before
    assert not set(opened) & set(join.open_requests)
    world.feed(labels=[{"id": opened[0], "label": before[opened[0]]}])
    world.run()
    assert join.counts.duplicate == 1


@pytest.mark.slow
def test_a_replay_that_asked_again_ends_in_the_same_bits(make_world):
    world = made(make_world)
    streamed(world, n=400)
    assert world.pipeline.learner.ledger.again > 5
    again = world.fresh()
    recover(again, None, world.pipeline.sequence)
    ours, theirs = (one.pipeline.snapshot()[0] for one in (world.loop, again))
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)
