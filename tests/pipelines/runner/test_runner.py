import json
import logging
import threading

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.connectors.memory import MemorySource
from streamboost.errors import ConnectorError, UnavailableError
from streamboost.pipelines.runner.batch_reader import BatchReader
from streamboost.pipelines.shutdown import StopToken
from streamboost.storage import read_arrays, write_arrays


def test_every_record_has_one_prediction_in_its_order(world, make_records):
    records, _ = make_records(35)
    world.feed(records)
    world.run()
    assert [p["id"] for p in world.read("predictions")] == [r["id"] for r in records]
    assert [p["sequence"] for p in world.read("predictions")] == [1 + i // 10 for i in range(35)]


def test_records_whose_own_times_are_out_of_order_are_taken_as_they_come(make_world, make_records):
    records, truth = make_records(60)
    times = [1_000 * ((7 * i) % 60) for i in range(60)]
    labels = [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]
    worlds = make_world(time="at", expires_after="20s"), make_world(expires_after="20s")
    worlds[0].feed([r | {"at": at} for r, at in zip(records, times, strict=True)], labels)
    worlds[1].feed(records, labels)
    for world in worlds:
        world.run()
    timed, plain = (world.read("predictions") for world in worlds)
    assert [p.pop("time") for p in timed] == times
    assert timed == [{key: p[key] for key in p if key != "time"} for p in plain]
    assert worlds[0].pipeline.learner.ledger == worlds[1].pipeline.learner.ledger


def test_nothing_is_predicted_until_a_label_is_known_and_then_the_commonest(world, make_records):
    records, _ = make_records(20)
    world.feed(records, [{"id": "3", "label": "left"}])
    world.run()
    first, then = world.read("predictions")[0], world.read("predictions")[10]
    assert (first["label"], first["probability"], first["version"]) == (None, None, 0)
    assert (then["label"], then["probability"], then["version"]) == ("left", 1.0, 0)


def test_a_committee_predicts_once_two_classes_are_known(world, make_records):
    records, truth = make_records(200)
    world.feed(records, [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)])
    world.run()
    late = world.read("predictions")[100:]
    right = sum(p["label"] == t for p, t in zip(late, truth[100:], strict=True))
    assert right > 85
    assert all(0.5 <= p["probability"] <= 1 and p["version"] > 0 and p["margin"] > 0 for p in late)


def test_a_request_carries_all_that_somebody_needs_to_answer_it(world, make_records):
    records, truth = make_records(60)
    world.feed(records, [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)])
    world.run()
    of = {record["id"]: record for record in records}
    predicted = {p["id"]: p for p in world.read("predictions")}
    requests = world.read("requests")
    assert 20 <= len(requests) <= 30
    for request in requests:
        assert request["features"] == {name: of[request["id"]][name] for name in "ab"}
        assert request["label"] == predicted[request["id"]]["label"]
        assert 0 < request["propensity"] <= 1
        assert request["expires"] is None
    assert set(requests[-1]["probabilities"]) == {"left", "right"}
    assert {p["id"] for p in predicted.values() if p["asked"]} == {r["id"] for r in requests}


def test_a_pool_asks_for_earlier_records_with_all_that_they_came_with(make_world, make_records):
    pool = {"mode": "pool", "window": 50, "query_batch_size": 5, "audit": 0.3}
    world = make_world(budget=0.2, time="at", query=pool)
    records, truth = make_records(300)
    for i, record in enumerate(records):
        record["at"] = f"t{i}"
    world.feed(records)
    answered = 0
    for stop in range(10, 310, 10):
        world.loop.commit(world.loop.step(world.loop.intake.poll(), None))
        new = world.read("requests")[answered:]
        world.feed(labels=[{"id": r["id"], "label": truth[int(r["id"])]} for r in new])
        answered += len(new)
        if stop == 150:
            arrays, manifest = world.loop.snapshot()
            world.loop.restore(arrays, manifest)
    requests = world.read("requests")
    earlier = [r for r in requests if int(r["id"]) < 10 * (r["sequence"] - 1)]
    assert len(earlier) > 20
    assert len({r["id"] for r in requests}) == len(requests) <= 60
    for request in requests:
        record = records[int(request["id"])]
        assert request["features"] == {name: record[name] for name in "ab"}
        assert request["time"] == record["at"]
    assert {r["label"] for r in requests[20:]} == {"left", "right"}
    counts = world.pipeline.join.counts
    assert counts.answered == len(requests) - len(new)
    assert counts.unsolicited == counts.late == counts.unknown == 0


def test_a_record_whose_label_is_known_is_not_asked_for_later(make_world, make_records):
    world = make_world(query={"mode": "pool", "window": 30, "query_batch_size": 5})
    records, truth = make_records(200)
    world.feed(records, [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)])
    world.run()
    requests = world.read("requests")
    assert len(requests) > 20
    assert all(int(r["id"]) >= 10 * (r["sequence"] - 1) for r in requests)


def test_requests_that_expire_by_time_say_when(make_world, make_records):
    world = make_world(expires_after="1h")
    world.feed(make_records(10)[0])
    world.run()
    assert {r["expires"] for r in world.read("requests")} == {1_000 + 3_600_000}


def test_a_request_that_expires_is_given_up_in_the_ledger(make_world, make_records):
    world = make_world(expires_after=15)
    world.pass_by(make_records(60)[0])
    ledger = world.pipeline.learner.ledger
    assert ledger.requests > ledger.expired > 10
    assert ledger.answered == 0


def test_labels_are_learnt_after_the_records_of_their_batch(world, make_records):
    records, truth = make_records(10)
    world.feed(records, [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)])
    world.run()
    assert {p["label"] for p in world.read("predictions")} == {None}
    assert world.pipeline.learner.n_labels == 10


def test_labels_without_records_make_batches_of_their_own(world, make_records):
    records, truth = make_records(10)
    world.feed(records)
    world.run()
    world.feed(labels=[{"id": "0", "label": truth[0]}, {"id": "7", "label": truth[7]}])
    world.run()
    assert world.pipeline.sequence == 2
    assert world.pipeline.learner.n_labels == 2


def test_each_label_that_does_not_fit_is_counted_by_its_rule(make_world, make_records):
    world = make_world(window=20, expires_after=40)
    records, _ = make_records(200)
    world.feed(labels=[{"id": "3", "label": "early"}, {"id": "nobody", "label": "left"}])
    world.run()
    world.feed(records[:10])
    world.run()
    asked = next(r["id"] for r in world.read("requests") if r["id"] != "3")
    world.feed(
        records[10:20],
        [
            {"id": asked, "label": "left"},
            {"id": asked, "label": "left"},
            {"id": asked, "label": "right"},
        ],
    )
    world.run()
    unanswered = {r["id"] for r in world.read("requests")} - {asked, "3"}
    silent = next(str(i) for i in range(20) if str(i) not in unanswered | {asked, "3"})
    world.pass_by(records[20:40])
    world.feed(labels=[{"id": silent, "label": "left"}])
    world.run()
    world.pass_by(records[40:60])
    world.feed(labels=[{"id": min(unanswered), "label": "left"}])
    world.feed(labels=[{"id": "59", "label": "a class never seen"}])
    world.run()
    counts = world.pipeline.join.counts
    assert counts.early == 2
    assert counts.duplicate == 1
    assert counts.corrected == 1
    assert counts.unknown == 1
    assert counts.late == 1
    assert counts.expired == 1
    assert counts.answered + counts.unsolicited == 3
    assert world.pipeline.learner.classes == ["early", "right", "a class never seen"]


def test_damaged_messages_become_dead_letters_in_the_order_they_came(world, make_records):
    records, _ = make_records(3)
    world.records.append([b"{", json.dumps(records[0]).encode(), json.dumps(records[0]).encode()])
    world.records.append([b'{"a": 1}', b'{"id": "x", "a": "text"}', b'{"id": "y", "a": NaN}', b""])
    world.labels.append([b'{"id": "0"}', b"?"])
    world.run()
    dead = world.read("dead")
    assert [(d["source"], d["reason"], d["position"]) for d in dead] == [
        ("records", "bad_json", {"0": 0}),
        ("records", "duplicate_id", {"0": 2}),
        ("records", "missing_id", {"0": 3}),
        ("records", "wrong_type", {"0": 4}),
        ("records", "bad_json", {"0": 5}),
        ("records", "empty", {"0": 6}),
        ("labels", "missing_label", {"0": 0}),
        ("labels", "bad_json", {"0": 1}),
    ]
    assert {d["time"] for d in dead} == {1_000}
    assert "join_window (50 records)" in dead[1]["detail"]
    assert [p["id"] for p in world.read("predictions")] == ["0"]


def test_the_journal_holds_what_a_replay_needs(world, make_records):
    records, truth = make_records(25)
    world.feed(records, [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)])
    world.run()
    entries = [json.loads(entry) for _, entry in world.transaction.read_journal()]
    assert [entry["sequence"] for entry in entries] == [1, 2, 3]
    assert [entry["ranges"]["records"]["0"] for entry in entries] == [[0, 10], [10, 20], [20, 25]]
    assert [entry["ranges"]["labels"]["0"] for entry in entries] == [[0, 10], [10, 20], [20, 25]]
    assert [entry["tick"] for entry in entries] == [1_000, 2_000, 3_000]
    assert all(entry["commands"] == [] and entry["swap"] is None for entry in entries)
    made = [training["version"] for entry in entries for training in entry["trainings"]]
    assert made == list(range(1, world.pipeline.learner.committee.version + 1))
    assert [entry["promoted"] for entry in entries][-1] == made[-1]
    assert [entry["read"] for entry in entries][-1] == {"records": 5, "labels": 5}
    assert len({entry["digest"] for entry in entries}) == 3


def test_the_same_batches_give_the_same_digests(make_world, make_records):
    digests = []
    for _ in range(2):
        world = make_world()
        records, truth = make_records(60)
        world.feed(
            records, [{"id": r["id"], "label": t} for r, t in zip(records, truth, strict=True)]
        )
        world.run()
        digests.append(
            [json.loads(entry)["digest"] for _, entry in world.transaction.read_journal()]
        )
    assert digests[0] == digests[1]


@pytest.mark.parametrize("change", ["record", "label"])
def test_the_digest_tells_of_a_changed_input(make_world, make_records, change):
    digests = []
    for value in (0.1, 0.2):
        world = make_world()
        records, _ = make_records(5)
        label = "left"
        if change == "record":
            records[2]["a"] = value
        else:
            label = str(value)
        world.feed(records, [{"id": "4", "label": label}])
        world.feed(make_records(20, start=5)[0])
        world.run()
        digests.append(world.pipeline.digest)
    assert digests[0] != digests[1]


def test_positions_and_outputs_are_committed_together(world, make_records):
    world.feed(make_records(25)[0])
    world.run()
    committed = world.transaction.last_committed_batch()
    assert committed.sequence == 3
    assert committed.positions == {
        "records": {"0": 25},
        "labels": {"0": 0},
        "commands": {"0": 0},
    }


def test_a_commit_that_fails_ends_the_run_and_leaves_what_was_committed(world, make_records):
    world.feed(make_records(25)[0])
    commits = []

    def fail_third(effects):
        commits.append(effects.sequence)
        if effects.sequence == 2:
            world.transaction.fail_next_commit(ConnectorError("the disk is full"))

    world.loop = world.fresh(fail_third)
    with pytest.raises(ConnectorError, match="is full"):
        world.run()
    assert commits == [1, 2]
    assert world.transaction.last_committed_batch().sequence == 2
    assert len(world.read("predictions")) == 20
    assert not world.loop.is_committed, "what was learned is not what was committed"


class Resting(StopToken):
    """Calls `meanwhile` with the number of the rest, and does not wait."""

    def __init__(self, meanwhile):
        super().__init__()
        self.meanwhile = meanwhile
        self.rests = 0

    def wait(self, seconds):
        self.rests += 1
        self.meanwhile(self.rests)


def test_a_commit_that_may_pass_is_tried_until_it_does_and_told_of_once(
    world, make_records, caplog
):
    caplog.set_level(logging.INFO)
    world.feed(make_records(25)[0])
    world.transaction.fail_next_commit()
    stop = Resting(lambda rests: rests < 3 and world.transaction.fail_next_commit())
    world.loop.stop = stop
    world.run()
    assert stop.rests == 3
    assert [p["id"] for p in world.read("predictions")] == [str(i) for i in range(25)]
    assert [record.message for record in caplog.records] == [
        "waiting: commit 1 was aborted on demand. It is tried again until it succeeds",
        "continuing: the operation that was retried has succeeded",
    ]


@pytest.mark.parametrize("passes", [True, False])
def test_a_stop_while_a_commit_waits_leaves_it_one_more_attempt(world, make_records, passes):
    world.feed(make_records(25)[0])
    world.transaction.fail_next_commit()

    def meanwhile(rests):
        world.loop.stop.request_stop()
        if not passes:
            world.transaction.fail_next_commit()

    world.loop.stop = Resting(meanwhile)
    if passes:
        world.run()
        assert world.transaction.last_committed_batch().sequence == 1
    else:
        with pytest.raises(UnavailableError):
            world.run()
        assert world.transaction.last_committed_batch() is None
    assert world.loop.is_committed == passes
    assert world.loop.stop.rests == 1


class Failing(MemorySource):
    """Cannot be polled the first `failures` times."""

    failures = 2

    def poll(self, limit):
        if self.failures:
            self.failures -= 1
            raise UnavailableError("the broker is away")
        return super().poll(limit)


def with_failing_labels(world):
    loop = world.loop
    loop.intake = BatchReader(
        MemorySource(world.records),
        Failing(world.labels),
        most_records=10,
        most_labels=10,
        clock=world.ticks.__next__,
    )
    return loop


def test_a_source_that_may_recover_is_polled_again_and_the_other_loses_nothing(
    world, make_records, caplog
):
    world.feed(make_records(25)[0])
    loop = with_failing_labels(world)
    loop.stop = Resting(lambda rests: None)
    world.run()
    assert loop.stop.rests == 2
    assert [p["id"] for p in world.read("predictions")] == [str(i) for i in range(25)]
    assert len(caplog.records) == 1


def test_a_stop_while_a_source_is_away_is_orderly(world, make_records):
    world.feed(make_records(25)[0])
    loop = with_failing_labels(world)
    loop.stop = Resting(lambda rests: loop.stop.request_stop())
    world.run()
    assert loop.is_committed
    assert world.read("predictions") == []


def test_whole_number_labels_stay_numbers(make_world, make_records):
    world = make_world(label="integer")
    records, truth = make_records(60)
    labels = [{"id": r["id"], "label": len(t)} for r, t in zip(records, truth, strict=True)]
    world.feed(records, labels)
    world.run()
    assert {p["label"] for p in world.read("predictions")[20:]} <= {4, 5}
    world.pipeline.join.restore(world.pipeline.join.to_arrays())
    world.feed(labels=[*labels[-5:], {"id": "59", "label": "5"}])
    world.run()
    assert world.pipeline.join.counts.duplicate == 5
    assert world.read("dead")[0]["reason"] == "wrong_type"


def test_it_waits_for_more_until_it_is_asked_to_stop(world, make_records):
    seen = threading.Event()
    world.loop = world.fresh(lambda effects: effects.sequence == 2 and seen.set())
    thread = threading.Thread(target=world.loop.run)
    thread.start()
    world.feed(make_records(10)[0])
    world.feed(make_records(10, start=10)[0])
    assert seen.wait(30)
    world.loop.stop.request_stop()
    thread.join(30)
    assert not thread.is_alive()
    assert len(world.read("predictions")) == 20


def test_a_stop_asked_for_in_a_batch_takes_effect_after_it(world, make_records):
    world.feed(make_records(50)[0])
    world.loop = world.fresh(lambda effects: world.loop.stop.request_stop())
    world.run()
    assert world.transaction.last_committed_batch().sequence == 1
    assert len(world.read("predictions")) == 10


def test_a_stop_ends_a_rest_at_once():
    stop = StopToken()
    threading.Timer(0.01, stop.request_stop).start()
    stop.wait(60)
    assert stop.requested


messages = st.lists(
    st.tuples(
        st.lists(st.integers(0, 60), max_size=6),
        st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["x", "y", "z"])), max_size=6),
    ),
    max_size=12,
)


@settings(max_examples=15, deadline=None)
@given(messages)
@pytest.mark.slow
def test_stopping_and_restoring_after_every_batch_changes_no_digest(
    tmp_path_factory, make_world, stream
):
    steady, moved = make_world(rounds=2), make_world(rounds=2)
    path = tmp_path_factory.mktemp("state") / "snapshot"
    for records, labels in stream:
        for world in (steady, moved):
            world.feed(
                [{"id": str(i), "a": i % 7, "b": i / 3} for i in records],
                [{"id": str(i), "label": label} for i, label in labels],
            )
            world.run()
        arrays, manifest = moved.loop.snapshot()
        write_arrays(path, arrays, kind="pipeline", manifest=manifest)
        committed = moved.transaction.last_committed_batch()
        moved.loop = moved.fresh()
        moved.loop.restore(*read_arrays(path, kind="pipeline"))
        if committed:
            moved.loop.intake.seek(committed.positions)
    for before, after in zip(steady.entries(), moved.entries(), strict=True):
        assert before == msgspec.structs.replace(after, resumed=before.resumed)
