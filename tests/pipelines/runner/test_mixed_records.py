"""Pipelines over records of mixed kinds: stored as received, and replayed bit for bit."""

import json

import numpy as np
import pytest

from streamboost.connectors.messages.values import (
    decode_values,
    encode_values,
    values_from_arrays,
    values_to_arrays,
)
from streamboost.pipelines.config.durations import WindowSize
from streamboost.pipelines.runner import replay as recovery
from streamboost.pipelines.runner.label_join import LabelJoin
from streamboost.pipelines.runner.replay import recover, snapshot_digest
from tests.pipelines.mixed_records import FIELDS, mixed_records

# What is held


def test_values_are_held_as_they_came():
    values = (
        1.5,
        -0.0,
        None,
        True,
        "東京 \0 \U0001f600",
        [1, [2.5, None]],
        {"a": {"b": []}},
        2**70,
        "",
    )
    held = decode_values(encode_values(values))
    assert held == values
    assert [type(value) for value in held] == [type(value) for value in values]
    assert np.signbit(held[1])


def test_what_is_too_long_is_cut_or_left_out():
    nested = 1
    for _ in range(900):
        nested = [nested]
    values = ("x" * 20_000, ["y" * 200_000], {"z": list(range(50_000))}, 10**4_000, nested, "kept")
    text, *long, number, _, kept = decode_values(encode_values(values))
    assert text == "x" * 10_000
    assert long == [None, None]
    assert number == 10**4_000
    assert kept == "kept"


def test_values_go_into_arrays_and_come_back():
    held = [encode_values((1, "a")), None, encode_values(()), encode_values(("東京",))]
    assert values_from_arrays(values_to_arrays(held), 4) == held
    assert values_to_arrays([None, None]) == {}
    assert values_from_arrays({}, 2) == [None, None]


def join_with(values):
    join = LabelJoin(WindowSize.parse(2), WindowSize.parse(100), 1)
    ids = [str(i) for i in range(len(values))]
    join.expire_and_evict(0)
    X = np.zeros((len(ids), 1), dtype=np.float32)
    join.add_records(ids, X, [None] * len(ids), ids[:1], np.array([0.5]), None, values)
    join.expire_and_evict(1)  # the first is held for its request alone
    return join


def test_a_join_gives_a_label_the_values_of_its_record_also_after_a_restart():
    values = [encode_values((i, "text")) for i in range(4)]
    join = LabelJoin(WindowSize.parse(2), WindowSize.parse(100), 1)
    join.restore(join_with(values).to_arrays())
    joined = join.add_records([], np.zeros((0, 1), np.float32), [], [], np.zeros(0))
    join.match_labels([("0", "x"), ("3", "y")], joined)
    assert joined.values == [values[0], values[3]]


def test_the_state_of_a_join_without_values_is_read():
    arrays = join_with([None] * 4).to_arrays()
    assert "values" not in arrays
    join = LabelJoin(WindowSize.parse(2), WindowSize.parse(100), 1)
    join.restore(arrays)
    assert join.held_record("3").values is None
    assert join.requested_record("0").values is None


# Replays


def asked_in(world):
    return [request["id"] for request in world.read("requests")]


def play(world, batches, *, killed=None, restarted=None):
    """Let records pass by; labels of what was asked come batches later. Kill before one batch."""
    answered, checkpoint = 0, None
    for at in range(batches):
        records, _ = mixed_records(10, 10 * at)
        ids = asked_in(world)
        due = [id for id in ids[answered:] if int(id) < 10 * at - 30]
        answered += len(due)
        truth = [mixed_records(1, int(id))[1][0] for id in due]
        labels = [{"id": id, "label": label} for id, label in zip(due, truth, strict=True)]
        world.feed(records, labels)
        world.run()
        if at == 7 or restarted:
            world.loop.about = {"environment": recovery.environment()}
            arrays, manifest = world.loop.snapshot()
            checkpoint = arrays, json.loads(json.dumps(manifest | world.loop.about))
        if at == killed or restarted:
            loop = world.fresh()
            recover(loop, checkpoint, world.transaction.last_committed_batch().sequence)
            world.loop = loop
    return world


def assert_its_journal_says_the_same(world):
    loop = world.fresh()
    recover(loop, None, world.transaction.last_committed_batch().sequence)
    assert snapshot_digest(*loop.snapshot()) == snapshot_digest(*world.loop.snapshot())


def assert_nobody_noticed(world, uninterrupted):
    """See that all is as without a kill, but for the time that nobody lived."""
    learned, wanted = (w.pipeline.learner.snapshot() for w in (world, uninterrupted))
    assert learned.keys() == wanted.keys()
    for name, array in learned.items():
        np.testing.assert_array_equal(array, wanted[name], err_msg=name)
    for name in ("predictions", "requests", "dead"):
        assert getattr(world, name).payloads() == getattr(uninterrupted, name).payloads()


@pytest.fixture(scope="module")
def uninterrupted(make_world):
    return play(make_world(fields=FIELDS, rounds=3, growth=1.3), 18)


def test_a_stream_of_every_kind_is_learned_from(uninterrupted):
    learner = uninterrupted.pipeline.learner
    assert len(uninterrupted.read("predictions")) == 180
    assert uninterrupted.read("dead") == []
    assert learner.n_labels > 40
    assert learner.committee is not None
    assert len(learner.features.classes) == 3, "one class appeared in the middle"
    assert learner.features.unreadable
    unknown = uninterrupted.pipeline.counters()["fields"]["unknown"]
    assert "device.screen.w" in unknown


@pytest.mark.parametrize("killed", range(17))
@pytest.mark.quick_once
def test_a_pipeline_killed_in_any_batch_goes_on_to_the_same_bits(uninterrupted, make_world, killed):
    world = play(make_world(fields=FIELDS, rounds=3, growth=1.3), 18, killed=killed)
    assert_nobody_noticed(world, uninterrupted)


def test_a_pipeline_restarted_from_every_checkpoint_goes_on_to_the_same_bits(
    uninterrupted, make_world
):
    world = play(make_world(fields=FIELDS, rounds=3, growth=1.3), 18, restarted=True)
    assert_nobody_noticed(world, uninterrupted)
    assert_its_journal_says_the_same(world)


@pytest.mark.parametrize("killed", [None, 5, 12])
@pytest.mark.quick_once
def test_a_journal_alone_gives_the_same_bits_also_where_a_thread_trains(make_world, killed):
    schedule = {"training": "background", "promotion": "better", "n_evaluation_labels": 5}
    world = play(make_world(fields=FIELDS, rounds=3, **schedule), 18, killed=killed)
    assert_its_journal_says_the_same(world)


@pytest.mark.slow
def test_a_field_added_in_the_middle_is_journalled_and_replayed(make_world):
    fields = {name: field for name, field in FIELDS.items() if name != "note"}
    world = play(make_world(fields=fields, rounds=3, growth=1.3), 8)
    world.pipeline.journal_extras.fields = {"note": "text", "device.screen.w": "number"}
    records, truth = mixed_records(60, 80)
    labels = [{"id": r["id"], "label": y} for r, y in zip(records, truth, strict=True)]
    world.feed(records, labels)
    world.run()
    features = world.pipeline.learner.features
    assert {"device.screen.w", "words for fine", "words for fraud"} <= set(features.names)
    assert list(features.fields)[-2:] == ["note", "device.screen.w"]
    assert_its_journal_says_the_same(world)


def test_requests_show_a_record_as_it_came(uninterrupted):
    for request in uninterrupted.read("requests"):
        (record,), _ = mixed_records(1, int(request["id"]))
        assert request["features"].keys() == FIELDS.keys()
        note = record.get("note")
        assert request["features"]["note"] == (note[:10_000] if isinstance(note, str) else note)
        assert request["features"]["shop"] == (
            record["shop"][:10_000] if isinstance(record.get("shop"), str) else record.get("shop")
        )
