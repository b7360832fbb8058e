"""What a running pipeline publishes, and that nothing of it reaches the pipeline."""

import itertools
import json
import os
import sqlite3
from contextlib import closing, contextmanager

import numpy as np
import pytest

from streamboost.errors import GapError
from streamboost.pipelines import open_requests
from streamboost.pipelines.open_requests import other_fields
from streamboost.pipelines.recovery import recover
from streamboost.pipelines.status import Publisher
from streamboost.pipelines.status_file import FILE
from streamboost.pipelines.status_reader import StatusReader


@contextmanager
def published(pipeline, folder):
    """Publish the status of a pipeline meanwhile, whenever it may be."""
    clock = itertools.count(0, 1_000).__next__
    publisher = Publisher(pipeline, folder, {"name": "test"}, clock=clock)
    pipeline.observers.append(publisher)
    pipeline.rehearsals.append(publisher.replayed)
    pipeline.turns.append(publisher.turn)
    pipeline.on_trouble.append(publisher.trouble)
    with closing(publisher):
        yield publisher


@pytest.fixture
def reader(tmp_path):
    with closing(StatusReader(tmp_path)) as reader:
        yield reader


def run(world, folder):
    with published(world.pipeline, folder):
        world.run()


def open_in(world):
    return set(world.pipeline.join.open_requests)


def answer(world, truth, ids):
    world.feed(labels=[{"id": id, "label": truth[int(id)]} for id in ids])


@pytest.fixture
def grown(world, make_records):
    """A pipeline that has records and some answers to come, and all records' true labels."""
    records, truth = make_records(300)
    for record in records:
        record["text"] = f"This is record {record['id']}."
    world.feed(records)
    answer(world, truth, range(120))
    return world, truth


def test_how_a_pipeline_stands_is_published_as_it_is(grown, tmp_path, reader):
    world, _ = grown
    run(world, tmp_path)
    learner, found = world.pipeline.learner, reader.documents()
    assert found["pipeline"]["state"] == "stopped"
    assert found["pipeline"]["sequence"] == world.pipeline.sequence
    assert found["pipeline"]["fields"] == {"text": True}
    assert found["learner"]["version"] == learner.committee.version
    assert found["learner"]["trees"] == learner.committee.n_trees
    assert found["learner"]["labels_of_classes"] == ["left", "right"]
    assert [one["version"] for one in found["learner"]["versions"]] == (
        world.pipeline.versions.numbers
    )
    assert found["ledger"]["requests"] == len(world.read("requests"))
    assert found["ledger"]["allowed"] == 150.0
    assert found["join"]["open_requests"] == len(open_in(world))
    assert found["evaluation"] == json.loads(json.dumps(learner.evaluation.in_numbers()))
    assert list(found["latency"]) == [
        *("poll", "decode", "score", "query", "join", "learn", "messages", "commit")
    ]


def test_points_count_every_record_and_label_once(grown, tmp_path, reader):
    world, _ = grown
    run(world, tmp_path)
    points = reader.points()
    assert sum(point["records"] for point in points) == 300
    assert sum(point["labels"] for point in points) == world.pipeline.learner.n_labels
    assert sum(point["batches"] for point in points) == world.pipeline.sequence
    assert points[-1]["requests"] == len(world.read("requests"))
    for point in points:
        assert point["records_per_second"] == point["records"] / point["seconds"]


def test_what_happened_is_marked(make_world, make_records, tmp_path, reader):
    world = make_world(promotion="better", shadow=5)
    records, truth = make_records(200)
    world.feed(records[:100])
    answer(world, truth, range(100))
    with published(world.pipeline, tmp_path):
        world.run()
        world.tell("pause")
        world.tell("rollback", 10**6)
        world.feed(records[100:])
        world.run()
    marks = reader.marks()
    entries = world.entries()
    assert [m["version"] for m in marks if m["kind"] == "trained"] == [
        training.version for entry in entries for training in entry.trainings
    ]
    assert [m["version"] for m in marks if m["kind"] == "promoted"] == [
        entry.promoted for entry in entries if entry.promoted
    ]
    assert [m["text"] for m in marks if m["kind"] == "command"] == ["pause"]
    (trouble,) = [m["text"] for m in marks if m["kind"] == "trouble"]
    assert "rollback 1000000 is not obeyed: version 1000000 is not kept" in trouble
    assert reader.document("trouble")["text"] == trouble
    assert reader.marks(since_id=marks[-2]["id"]) == marks[-1:]


def test_the_newest_messages_are_shown_as_they_were_sent(grown, tmp_path, reader):
    world, _ = grown
    world.records.append([b"{", b'{"a": 1}'])
    run(world, tmp_path)
    assert reader.predictions() == world.read("predictions")[::-1]
    assert reader.predictions(3) == world.read("predictions")[:-4:-1]
    assert reader.dead_letters() == world.read("dead")[::-1]


def test_class_mix_and_confusion_count_predictions_and_answers(grown, tmp_path, reader):
    world, truth = grown
    run(world, tmp_path)
    predicted = {p["id"]: p["label"] for p in world.read("predictions")}
    asked = {r["id"] for r in world.read("requests")} & {str(i) for i in range(120)}
    mix, confusion = reader.document("classes"), reader.document("confusion")
    said = list(predicted.values())
    assert mix["labels"] == confusion["labels"] == ["left", "right"]
    assert mix["predicted"] == [said.count("left"), said.count("right")]
    assert sum(mix["labelled"]) == world.pipeline.join.counts.answered
    pairs = [(truth[int(id)], predicted[id]) for id in asked if predicted[id] is not None]
    learned_early = sum(mix["labelled"]) - sum(map(sum, confusion["counts"]))
    assert learned_early == sum(predicted[id] is None for id in asked)
    assert confusion["counts"] == [
        [pairs.count((true, said)) for said in ("left", "right")] for true in ("left", "right")
    ]


def test_feature_drift_is_told_once_there_are_records_enough(
    make_world, make_records, tmp_path, reader
):
    world = make_world(batch=200)
    records, _ = make_records(2_000)
    for record in records[1_000:]:
        record["a"] += 0.5
    with published(world.pipeline, tmp_path) as publisher:
        world.feed(records[:900])
        world.run()
        publisher.turn()
        publisher._writer.wait(10)
        assert {one["psi"] for one in reader.document("features")["features"]} == {None}
        world.feed(records[900:])
        world.run()
    found = reader.document("features")
    moved, same = found["features"]
    assert (moved["name"], same["name"]) == ("a", "b")
    assert moved["psi"] > 0.25 > 0.1 > same["psi"]
    assert found["records"] == found["reference_records"] == 1_000


def test_the_reference_outlives_the_run(make_world, make_records, tmp_path, reader):
    world = make_world(batch=200)
    world.feed(make_records(1_000)[0])
    run(world, tmp_path)
    before = reader.document("feature_reference")
    world.feed(make_records(1_200, start=1_000)[0])
    run(world, tmp_path)
    assert reader.document("feature_reference") == before
    assert before["n"] == 1_000


def test_after_drift_features_are_compared_with_the_records_from_there_on(
    make_world, make_records, tmp_path, reader
):
    world = make_world(batch=200, window=5_000, growth=9.0, extend_every=None, on_drift="adwin")
    records, truth = make_records(3_000)
    for i in range(1_200, 3_000):
        records[i]["a"] += 5.0
        truth[i] = {"left": "right", "right": "left"}[truth[i]]
    with published(world.pipeline, tmp_path):
        world.feed(records[:1_200])
        answer(world, truth, range(1_200))
        world.run()
        world.feed(records[1_200:])
        answer(world, truth, range(1_200, 3_000))
        world.run()
    assert "drift" in {mark["kind"] for mark in reader.marks()}
    assert reader.document("feature_reference")["means"][0] > 5.0
    assert all(one["psi"] < 0.25 for one in reader.document("features")["features"])


def test_open_requests_are_shown_exactly_with_the_records_other_fields(grown, tmp_path, reader):
    world, truth = grown
    with published(world.pipeline, tmp_path):
        world.run()
        sent = {request["id"]: request for request in world.read("requests")}
        answered = sorted(open_in(world))[:5]
        answer(world, truth, map(int, answered))
        world.run()
    requests = reader.requests()
    assert reader.request_ids() == [request["id"] for request in requests]
    assert {request["id"] for request in requests} == open_in(world)
    assert not set(answered) & open_in(world)
    for request in requests:
        fields = request.pop("fields")
        assert request == sent[request["id"]]
        assert fields == {"text": f"This is record {request['id']}."}
    utilities = [request["utility"] for request in requests]
    assert utilities == sorted(utilities, reverse=True)


def test_requests_that_expire_are_not_shown_any_more(make_world, make_records, tmp_path, reader):
    world = make_world(expires_after=20)
    world.feed(make_records(100)[0])
    run(world, tmp_path)
    shown = {request["id"] for request in reader.requests()}
    assert shown == open_in(world)
    assert shown < {request["id"] for request in world.read("requests")}


def test_a_pool_asks_with_the_fields_of_records_that_came_batches_ago(
    make_world, make_records, tmp_path, reader
):
    query = {"mode": "pool", "window": 40, "round_size": 5}
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
    """Return a fresh pipeline that has replayed the journal, and then worked on."""
    pipeline = world.fresh()
    with published(pipeline, folder):
        recover(pipeline, None, world.pipeline.sequence)
        pipeline.run(until_idle=True)
    return pipeline


@pytest.mark.parametrize("left", ["all", "nothing", "older"])
def test_a_restart_shows_the_requests_that_are_open_whatever_the_last_run_left(
    grown, tmp_path, reader, left
):
    world, truth = grown
    path = tmp_path / FILE
    with published(world.pipeline, tmp_path):
        world.run()
    if left == "nothing":
        path.unlink()
    else:
        before = path.read_bytes()
        answer(world, truth, map(int, sorted(open_in(world))[:7]))
        if left == "older":
            world.run()  # unpublished, as before a kill
            path.write_bytes(before)
    pipeline = replayed(world, tmp_path)
    requests = reader.requests()
    assert {request["id"] for request in requests} == set(pipeline.join.open_requests)
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


def test_further_fields_are_bounded_and_never_the_answer(monkeypatch, grown, tmp_path, reader):
    monkeypatch.setattr(open_requests, "MOST_BYTES", 2_000)
    many = {f"f{i}": i for i in range(300)}
    record = many | {"id": "1", "a": 0.5, "label": "left", "text": "x" * 50_000, "deep": [{}]}
    fields = other_fields(json.dumps({"text": record.pop("text"), **record}).encode(), {"id", "a"})
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


def test_of_very_many_classes_the_commonest_are_shown(make_world, make_records, tmp_path, reader):
    world = make_world(first=150, growth=9.0, batch=50, window=500, expires_after=500)
    records, _ = make_records(300)
    labels = [f"class{i % 70:02}" if i % 4 else "often" for i in range(300)]
    world.feed(records[:200])
    world.feed(labels=[{"id": str(i), "label": labels[i]} for i in range(200)])
    with published(world.pipeline, tmp_path):
        world.run()
        world.feed(records[200:])
        world.run()
    found = reader.documents()
    assert len(found["learner"]["labels_of_classes"]) > 50
    assert len(found["evaluation"]["recent"]["classes"]) == 50
    assert found["evaluation"]["recent"]["confusion"] is None
    for name in ("classes", "confusion"):
        assert len(found[name]["labels"]) <= 50
        assert "often" in found[name]["labels"]
    last = max(reader.requests(), key=lambda request: request["sequence"])
    assert len(last["probabilities"]) == 50
    assert last["label"] in last["probabilities"]


@pytest.mark.parametrize("payload", [b"", b"[]", b"{", b'{"a": 1}', b'{"a":' + b"[" * 10_000])
def test_further_fields_of_any_bytes_can_be_told(payload):
    assert other_fields(payload, {"a"}) == {}


def as_it_goes(world):
    return world.transaction.committed(), world.read("predictions"), world.pipeline.digest


@pytest.mark.parametrize("hurt", ["damaged", "a folder", "locked", "full", "no folder"])
def test_nothing_that_becomes_of_the_file_reaches_the_pipeline(
    make_world, make_records, tmp_path, hurt, caplog
):
    worlds = make_world(), make_world()
    records, truth = make_records(300)
    for world in worlds:
        world.feed(records)
        answer(world, truth, range(100))
    alone, watched = worlds
    alone.run()
    folder, path = tmp_path, tmp_path / FILE
    if hurt == "damaged":
        path.write_bytes(os.urandom(20_000))
    elif hurt == "a folder":
        path.mkdir()
    elif hurt == "no folder":
        folder = tmp_path / "nowhere"
    with closing(sqlite3.connect(tmp_path / "other.db", isolation_level=None)) as other:
        if hurt == "locked":
            run(make_world(), folder)
            other.execute("ATTACH ? AS status", (str(path),))
            other.execute("BEGIN IMMEDIATE")
            other.execute("CREATE TABLE status.held (a)")
        with published(watched.pipeline, folder) as publisher:
            if hurt == "full":
                publisher._writer._file.write = _no_space
            watched.run()
        if hurt == "locked":
            other.execute("ROLLBACK")
    assert as_it_goes(watched)[1:] == as_it_goes(alone)[1:]
    warned = caplog.text.count("no status can be published")
    assert warned == (0 if hurt == "damaged" else 1)


def _no_space(content):
    raise sqlite3.OperationalError("database or disk is full")


def test_what_cannot_be_told_is_logged_once_and_stops_nothing(grown, tmp_path, caplog, monkeypatch):
    world, _ = grown
    evaluation = type(world.pipeline.learner.evaluation)
    monkeypatch.setattr(evaluation, "recent", lambda self: 1 / 0)
    run(world, tmp_path)
    assert len(world.read("predictions")) == 300
    assert caplog.text.count("the status cannot be told") == 1


def test_publishing_changes_nothing_of_what_a_pipeline_learns(make_world, make_records, tmp_path):
    records, truth = make_records(300)
    digests = []
    for watched in (False, True):
        world = make_world(promotion="better", shadow=5)
        world.feed(records)
        answer(world, truth, range(150))
        if watched:
            run(world, tmp_path)
        else:
            world.run()
        digests.append(world.pipeline.digest)
        arrays, _ = world.pipeline.snapshot()
    assert digests[0] == digests[1]
    assert np.isfinite(arrays["join.pinned"]).all()


def test_nothing_is_published_while_nothing_changes(grown, tmp_path):
    world, _ = grown
    with published(world.pipeline, tmp_path) as publisher:
        world.run()
        writer = publisher._writer
        writer.wait(10)
        taken = []
        take = writer.take
        writer.take = lambda publication: (taken.append(publication), take(publication))
        for _ in range(5):
            publisher.turn()
            writer.wait(10)
        assert len(taken) <= 2
        publisher.trouble("the lights are out")
        publisher.turn()
        assert taken[-1].documents["trouble"]["text"] == "the lights are out"


def test_what_could_not_be_written_is_written_later_although_no_batch_comes(
    grown, tmp_path, reader
):
    world, _ = grown
    with published(world.pipeline, tmp_path) as publisher:
        world.run()
        publisher._writer.wait(10)
        with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            publisher.trouble("the lights are out")
            publisher.turn()
            publisher._writer.wait(10)
            assert reader.document("trouble") == {}
            other.execute("ROLLBACK")
        for _ in range(2):
            publisher.turn()
            publisher._writer.wait(10)
        assert reader.document("trouble")["text"] == "the lights are out"


def test_what_is_replayed_is_not_timed(grown, tmp_path):
    world, _ = grown
    world.run()
    pipeline = world.fresh()
    recover(pipeline, None, world.pipeline.sequence)
    assert pipeline.stopwatch.in_numbers() == {}


def test_the_loop_spends_but_a_fraction_of_its_time_on_it(grown, tmp_path, monkeypatch):
    world, _ = grown
    with published(world.pipeline, tmp_path) as publisher:
        cpu = iter(range(0, 1_000, 3))
        monkeypatch.setattr("streamboost.pipelines.status.time.thread_time", cpu.__next__)
        publisher._clock = lambda: 1_000.0
        publisher._publish("running")
        assert publisher._due == 1_000.0 + 3 / 0.02


def test_while_a_commit_is_tried_again_that_is_said_and_what_is_committed_stays(
    grown, tmp_path, reader
):
    world, _ = grown
    states = []
    with published(world.pipeline, tmp_path) as publisher:
        take = publisher._writer.take

        def taken(publication):
            states.append((publication.documents["pipeline"]["state"], publication.requests))
            take(publication)
            publisher._writer.wait(10)

        publisher._writer.take = taken
        world.transaction.abort_next()
        world.run()
    assert ("retrying", None) in states
    assert states[-1][0] == "stopped"
    assert "aborted on demand" in reader.document("trouble")["text"]
    assert {request["id"] for request in reader.requests()} == open_in(world)


def test_the_sequence_told_is_that_of_the_requests_told(grown, tmp_path, reader):
    world, _ = grown
    told = []
    with published(world.pipeline, tmp_path) as publisher:

        def look(effects):
            world.pipeline.is_settled = False  # as while the next batch is being committed
            publisher.turn()
            publisher._writer.wait(10)
            told.append((reader.document("pipeline")["sequence"], reader.requests()))
            world.pipeline.is_settled = True

        world.pipeline.observers.append(look)
        world.run()
    assert {sequence for sequence, _ in told} > {0}
    for sequence, requests in told:
        asked = {one["id"] for one in world.read("requests") if one["sequence"] <= sequence}
        assert asked & open_in(world) <= {one["id"] for one in requests}


def test_a_gap_is_marked(world, make_records, tmp_path, reader, monkeypatch):
    world.feed(make_records(50)[0])
    world.run()
    pipeline, sequence = world.fresh(), world.pipeline.sequence
    with published(pipeline, tmp_path):
        with monkeypatch.context() as patch:
            patch.setattr(pipeline.intake, "reread", _no_records)
            recover(pipeline, None, sequence, on_gap="continue")
        pipeline.intake.seek(world.pipeline.intake.positions())
        world.feed(make_records(10, start=50)[0])
        pipeline.run(until_idle=True)
    (gap,) = [mark["text"] for mark in reader.marks() if mark["kind"] == "gap"]
    assert gap == f"what batches 1 to {sequence} taught is lost"


def _no_records(inputs, read):
    raise GapError("the records are gone")
