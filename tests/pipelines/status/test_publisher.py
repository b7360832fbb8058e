"""Status documents that a running pipeline publishes."""

import json
from dataclasses import asdict

import pytest
from waiting import until

from streamboost.errors import ConfigurationError
from streamboost.pipelines.config.connectors.registry import open_append_sink
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.runner.batch_reader import current_time_ms
from streamboost.pipelines.runner.replay import recover
from streamboost.pipelines.status.documents import pipeline_document
from tests.pipelines.publishing import answer, open_in, published, run


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
        world.pipeline.versions.version_numbers
    )
    active = reader.versions()[-1]
    assert active["version"] == learner.committee.version
    assert active["began"] <= found["pipeline"]["time"], "the time of a commit"
    assert found["comparisons"]["versions"] == learner.trainer.shadow.to_json() != []
    assert found["ledger"]["requests"] == len(world.read("requests"))
    assert found["ledger"]["allowed"] == 150.0
    assert found["join"]["open_requests"] == len(open_in(world))
    assert found["evaluation"] == json.loads(json.dumps(learner.evaluation.to_json()))
    assert list(found["latency"]) == [
        *("poll", "decode", "score", "query", "join", "learn", "messages", "commit")
    ]


@pytest.mark.slow
def test_a_pipeline_to_which_nothing_comes_goes_on_saying_that_it_is_there(grown, tmp_path, reader):
    world, _ = grown
    with published(world.loop, tmp_path) as publisher:
        world.run()
        for _ in range(3):
            publisher.between_batches()
            publisher._writer.wait_until_idle(10)
        points, beat = reader.chart_points(), reader.document("heartbeat")
        until(lambda: current_time_ms() > beat["time"])
        publisher.between_batches()
        publisher._writer.wait_until_idle(10)
        assert reader.document("heartbeat")["time"] > beat["time"]
        assert reader.chart_points() == points
        assert reader.document("pipeline")["sequence"] == world.pipeline.sequence


@pytest.mark.slow
def test_a_lag_that_is_measured_after_the_last_batch_is_published(grown, tmp_path, reader):
    world, _ = grown
    with published(world.loop, tmp_path) as publisher:
        world.run()
        for lag in ({"records": 9}, {"records": 0}):
            world.loop.backlog.lag = lag
            for _ in range(3):
                publisher.between_batches()
                publisher._writer.wait_until_idle(10)
            assert reader.document("lag") == lag
            assert reader.chart_points()[-1]["lag"] == lag


@pytest.mark.slow
def test_points_count_every_record_and_label_once(grown, tmp_path, reader):
    world, _ = grown
    run(world, tmp_path)
    points = reader.chart_points()
    assert sum(point["records"] for point in points) == 300
    assert sum(point["labels"] for point in points) == world.pipeline.learner.n_labels
    assert sum(point["batches"] for point in points) == world.pipeline.sequence
    assert points[-1]["requests"] == len(world.read("requests"))
    for point in points:
        assert point["records_per_second"] == point["records"] / point["seconds"]


def test_what_happened_is_marked(make_world, make_records, tmp_path, reader):
    world = make_world(promotion="better", n_evaluation_labels=5)
    records, truth = make_records(200)
    world.feed(records[:100])
    answer(world, truth, range(100))
    with published(world.loop, tmp_path):
        world.run()
        world.tell("pause")
        world.tell("rollback", 10**6)
        world.feed(records[100:])
        world.run()
    marks = reader.chart_marks()
    entries = world.entries()
    assert [m["version"] for m in marks if m["kind"] == "trained"] == [
        training.version for entry in entries for training in entry.trainings
    ]
    assert [m["text"] for m in marks if m["kind"] == "trained"] == [
        f"{training.kind}, {training.labels:,} labels when training began"
        for entry in entries
        for training in entry.trainings
    ]
    assert [m["version"] for m in marks if m["kind"] == "promoted"] == [
        entry.promoted for entry in entries if entry.promoted
    ]
    assert [m["text"] for m in marks if m["kind"] == "command"] == ["pause"]
    (trouble,) = [m["text"] for m in marks if m["kind"] == "trouble"]
    assert "rollback 1000000 is rejected: version 1000000 is not kept" in trouble
    assert reader.document("trouble")["text"] == trouble
    assert reader.chart_marks(since_id=marks[-2]["id"]) == marks[-1:]


@pytest.mark.slow
def test_marks_keep_their_numbers_over_restarts(grown, tmp_path, reader):
    world, _ = grown
    run(world, tmp_path)
    marks = reader.chart_marks()
    assert marks
    for told in ("pause", "resume"):
        world.loop = replayed(world)
        world.tell(told)
        run(world, tmp_path)
        later = reader.chart_marks()
        assert later[: len(marks)] == marks
        assert [mark["text"] for mark in reader.chart_marks(since_id=marks[-1]["id"])] == [told]
        marks = later


def replayed(world):
    """Return a loop as the next process has it."""
    loop = world.fresh()
    recover(loop, None, world.pipeline.sequence)
    return loop


@pytest.mark.slow
def test_the_newest_messages_are_shown_as_they_were_sent(grown, tmp_path, reader):
    world, _ = grown
    world.records.append([b"{", b'{"a": 1}'])
    run(world, tmp_path)
    assert reader.predictions() == world.read("predictions")[::-1]
    assert reader.predictions(3) == world.read("predictions")[:-4:-1]
    assert reader.dead_letters() == world.read("dead")[::-1]


@pytest.mark.slow
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
    with published(world.loop, tmp_path) as publisher:
        world.feed(records[:900])
        world.run()
        publisher.between_batches()
        publisher._writer.wait_until_idle(10)
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


@pytest.mark.slow
def test_after_drift_features_are_compared_with_the_records_from_there_on(
    make_world, make_records, tmp_path, reader
):
    world = make_world(batch=200, window=5_000, growth=9.0, extend_every=None, on_drift="adwin")
    records, truth = make_records(3_000)
    for i in range(1_200, 3_000):
        records[i]["a"] += 5.0
        truth[i] = {"left": "right", "right": "left"}[truth[i]]
    with published(world.loop, tmp_path):
        world.feed(records[:1_200])
        answer(world, truth, range(1_200))
        world.run()
        world.feed(records[1_200:])
        answer(world, truth, range(1_200, 3_000))
        world.run()
    assert "drift" in {mark["kind"] for mark in reader.chart_marks()}
    assert reader.document("feature_reference")["means"][0] > 5.0
    assert all(one["psi"] < 0.25 for one in reader.document("features")["features"])


@pytest.mark.slow
def test_a_change_of_the_stream_is_marked_and_told(make_world, make_records, tmp_path, reader):
    world = make_world(budget=0.1, batch=50)
    records, truth = make_records(1_400)
    truth[900:] = [{"left": "right", "right": "left"}[label] for label in truth[900:]]
    with published(world.loop, tmp_path):
        for first in range(0, 1_400, 50):
            world.feed(records[first : first + 50])
            world.run()
            answer(world, truth, sorted(open_in(world), key=int))
            world.run()
    changes = list(world.pipeline.learner.changes)
    assert 800 <= changes[0].since_records < changes[0].records <= 1_400
    assert reader.document("changes") == {"total": len(changes), "newest": asdict(changes[-1])}
    assert [mark["text"] for mark in reader.chart_marks() if mark["kind"] == "change"] == [
        f"the stream changed before label {change.since_labels + 1:,}" for change in changes
    ]
    assert replayed(world).pipeline.learner.changes.state() == (
        world.pipeline.learner.changes.state()
    )


def test_of_very_many_classes_the_commonest_are_shown(make_world, make_records, tmp_path, reader):
    world = make_world(first=150, growth=9.0, batch=50, window=500, expires_after=500)
    records, _ = make_records(300)
    labels = [f"class{i % 70:02}" if i % 4 else "often" for i in range(300)]
    world.feed(records[:200])
    world.feed(labels=[{"id": str(i), "label": labels[i]} for i in range(200)])
    with published(world.loop, tmp_path):
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


@pytest.mark.parametrize(
    ("path", "is_open"),
    [("x.jsonl", True), ("x", True), ("x.csv", False), ("X.CSV", False), ("x.Pq", False)],
)
def test_a_table_takes_no_labels_however_its_name_is_written(world, tmp_path, path, is_open):
    section = {"connector": "files", "path": path, "follow": not path.lower().endswith("pq")}
    tables = {"pipeline": {"name": "test"}, "source": {"connector": "sqlite", "stream": "in"}}
    config = parse(tables | {"labels": section}, tmp_path, environment={})
    assert pipeline_document(config, world.pipeline)["accepts_labels"] == is_open
    if is_open:
        open_append_sink(config.sections.labels, "labels", config.connector_context).close()
    else:
        with pytest.raises(ConfigurationError, match="cannot be written to"):
            open_append_sink(config.sections.labels, "labels", config.connector_context)
