"""The learner of distributed scoring: same bits as one process, and metrics over all records."""

import json

import numpy as np
import pytest

from streamboost.errors import GapError
from streamboost.pipelines.distributed.scoring_log import ScoringLogEntry
from streamboost.pipelines.runner.batch import BatchInputs
from streamboost.pipelines.state.commands import Command
from streamboost.pipelines.state.journal import JournalExtras
from tests.pipelines.distributed.sharing import (
    Learned,
    edition_of,
    judged,
    label_of,
    message,
    mixed,
    numbers,
    predicted,
    recorded,
    records,
    task,
)


@pytest.mark.parametrize("make", [numbers, mixed])
def test_every_answer_is_learned_with_the_propensity_it_was_asked_with(make):
    learned = Learned(make())
    asked = [id for n in range(20) for id in learned.turn(records(10, start=10 * n))]
    pipeline = learned.pipeline
    assert pipeline.join.counts.answered == pipeline.learner.n_labels == len(asked) > 30
    assert pipeline.learner.ledger.records == 200
    assert pipeline.learner.ledger.requests == len(asked)
    assert pipeline.learner.ledger.tokens == pytest.approx(0.3 * 200 - len(asked))
    taught = [id for effects in learned.effects for id in effects.joined.ids]
    assert sorted(taught) == sorted(asked)
    assert not np.isnan([p for e in learned.effects for p in e.joined.propensity]).any()
    assert pipeline.learner.committee.version > 3


def test_versions_are_compared_on_the_labels_that_scorers_requested():
    learned = Learned(numbers())
    for n in range(20):
        learned.turn(records(10, start=10 * n))
    comparisons = learned.pipeline.snapshot()[1]["comparisons"]
    assert comparisons[-1]["last"] == learned.pipeline.learner.committee.version
    n_labels = sum(one["labels"] for one in comparisons)
    assert 20 < n_labels < learned.pipeline.learner.n_labels, "those after version 2"


@pytest.mark.slow
def test_the_figures_are_of_all_records_not_of_those_asked_about():
    learned = Learned(numbers())
    for n in range(60):
        learned.turn(records(10, start=10 * n))
    report = learned.pipeline.learner.evaluation.since_start()
    assert report.records == 600
    assert report.answered == learned.pipeline.learner.n_labels
    assert report.committee.accuracy.low < report.committee.accuracy.value
    assert report.committee.accuracy.value != report.committee.naive_accuracy.value


@pytest.fixture(scope="module")
def evaluated():
    """Return a learner whose scorer read recorded predictions, and the share of right own ones."""
    learned, right = Learned(recorded()), 0
    for n in range(60):
        every = judged(10, start=10 * n)
        own = learned.edition().learner.score(
            learned.edition().learner.encode_records(recorded().decode(every)[0].values)
        )
        right += sum(
            label_of(m.payload) == label for m, label in zip(every, own.labels, strict=True)
        )
        learned.turn(every)
    return learned, right / 600


def test_recorded_predictions_are_evaluated_over_all_records(evaluated):
    learned, right = evaluated
    report = learned.pipeline.learner.evaluation.since_start()
    assert report.records == 600
    assert report.answered == learned.pipeline.learner.n_labels < 200
    assert report.committee.accuracy.low < 0.6 < report.committee.accuracy.high
    alone, gain = report.committee_alone.accuracy, report.gain_alone
    assert alone.low < right < alone.high
    assert 0.0 < gain.low < right - 0.6 < gain.high
    assert gain.value == pytest.approx(alone.value - report.committee.accuracy.value, abs=1e-6)
    assert report.log_loss is None, "some predictions are labels alone"


def test_recorded_predictions_are_counted_over_all_records(evaluated):
    counters = evaluated[0].pipeline.counters()
    assert counters["recorded"] == {
        "valid": 480,
        "labels_alone": 180,
        "missing": 60,
        "malformed": 60,
    }
    assert counters["shadow_models"]["own model"]["since_start"]["gain"]["low"] > 0.0


def test_requests_show_the_recorded_prediction(evaluated):
    learned, _ = evaluated
    shown = [json.loads(one) for e in learned.effects for one in e.messages.requests]
    for one in shown:
        given = predicted(int(one["id"].split(".")[1]), learned.truth[one["id"]])
        best = max(given, key=given.get) if isinstance(given, dict) else given
        assert one["label"] == (best if best in ("left", "right") else None)
    assert len(shown) == learned.pipeline.learner.n_labels


def test_merged_class_is_none_of_the_recorded_predictions_of_earlier_entries():
    learned = Learned(recorded())
    every = [judged(20, start=20 * n, predict=lambda i, y: y) for n in range(4)]
    for some in every[:3]:
        learned.turn(some)
    scored = learned.task.step(every[3], learned.edition(), 1_000, 0)
    merge = Command("merge", label="left", into="right")
    learned.pipeline.step(BatchInputs(2_000, {}, [], [], commands=[merge]), None)
    effects = learned.step([message(scored.entry, 3)], [])
    assert set(effects.scored.labels) == {"right"}
    later = learned.task.step(judged(20, start=80), learned.edition(), 1_000, 0)
    assert labels_of(later) == {"right", None}


def test_class_that_is_added_later_is_no_malformed_prediction_of_scorers():
    learned = Learned(recorded())
    every = judged(20, predict=lambda i, y: "third")
    malformed = learned.task.step(every[:10], learned.edition(), 1_000, 0)
    assert ScoringLogEntry.decode(malformed.entry, "").recorded["malformed"] == 10
    learned.pipeline.journal_extras.rules = {"classes": ["left", "right", "third"]}
    learned.step([message(malformed.entry, 0)], [])
    later = learned.task.step(every[10:], learned.edition(), 1_000, 0)
    assert labels_of(later) == {"third"}
    effects = learned.step([message(later.entry, 1)], [])
    assert set(effects.scored.labels) == {"third"}


def test_a_committee_is_published_with_the_batch_in_which_it_comes_to_serve():
    learned = Learned(numbers())
    for n in range(12):
        learned.turn(records(10, start=10 * n))
    published = [e.messages.publish is not None for e in learned.effects]
    promoted = [e.promoted is not None for e in learned.effects]
    assert promoted[0] is False
    assert published == [True, *promoted[1:]]
    assert sum(promoted) > 2


@pytest.mark.parametrize(
    ("make", "come"), [(numbers, records), (mixed, records), (recorded, judged)]
)
def test_the_same_progress_once_more_ends_in_the_same_bits(make, come):
    learned = Learned(make())
    for n in range(15):
        learned.turn(come(10, start=10 * n))
    again = Learned(make())
    for inputs, effects in list(zip(learned.inputs, learned.effects, strict=True))[1:8]:
        assert again.step(inputs.records, inputs.labels).digest == effects.digest
    third = Learned(make())
    third.pipeline.restore(*again.pipeline.snapshot())
    for inputs, effects in list(zip(learned.inputs, learned.effects, strict=True))[8:]:
        assert third.pipeline.step(inputs, None).digest == effects.digest
    arrays = [one.pipeline.snapshot()[0] for one in (learned, third)]
    assert arrays[0].keys() == arrays[1].keys()
    assert all(a.tobytes() == arrays[1][k].tobytes() for k, a in arrays[0].items())


def test_entries_that_are_gone_stop_the_learner_or_are_counted():
    learned, patient = Learned(numbers()), Learned(numbers(), on_data_loss="continue")
    for n in range(4):
        learned.turn(records(10, start=10 * n))
    patient.step(learned.progress[:1], [])
    patient.step(learned.progress[3:], [])
    assert patient.pipeline.lost_batches == 2
    strict = Learned(numbers())
    with pytest.raises(GapError, match=r"is batch 4 instead of 1.*compaction"):
        strict.step(learned.progress[3:], [])
    with pytest.raises(GapError, match="recreated"):
        learned.step(learned.progress[:1], [])


def test_a_record_that_two_partitions_had_asked_about_is_learned_once():
    learned = Learned(numbers())
    asked = learned.turn(records(20))
    entry = json.loads(learned.progress[0].payload)
    other = message(entry, 0, partition="1")
    learned.step([other], [])
    assert asked
    assert learned.pipeline.join.counts.duplicate_ids == len(asked)
    assert learned.pipeline.learner.n_labels == len(asked)
    assert ScoringLogEntry.decode(other.payload, "").records == 20


@pytest.mark.parametrize("make", [numbers, mixed])
def test_a_label_that_nobody_asked_for_is_learned_where_it_brings_its_record(make):
    learned = Learned(make())
    unasked = json.loads(records(1, seed=8)[0].payload)
    features = {name: unasked[name] for name in learned.pipeline.schema.features}
    label = message({"id": "other", "label": "left", "features": features}, 0)
    effects = learned.step([], [label, label])
    assert effects.joined.ids == ["other"]
    assert np.isnan(effects.joined.propensity).all()
    assert learned.pipeline.learner.n_labels == 1
    assert learned.pipeline.join.counts.duplicate == 1


@pytest.mark.parametrize("features", [None, 7, {"a": "wide"}])
def test_a_label_that_nobody_asked_for_waits_and_is_counted_otherwise(features):
    learned = Learned(numbers())
    given = {"id": "other", "label": "left", "features": features}
    learned.step([], [message(given, 0)])
    learned.pipeline.step(BatchInputs(10_000_000, {}, [], []), None)
    assert learned.pipeline.join.counts.unknown == 1
    assert learned.pipeline.learner.n_labels == 0


@pytest.mark.slow
def test_a_field_that_joins_is_published_and_asked_with():
    learned = Learned(mixed())
    for n in range(4):
        learned.turn(records(10, start=10 * n))
    learned.pipeline.journal_extras.fields = {"late": "number"}
    effects = learned.step([], [])
    assert effects.messages.publish is not None
    learned.pipeline.journal_extras = JournalExtras()
    for n in range(4, 8):
        learned.turn(records(10, start=10 * n))
    entry = ScoringLogEntry.decode(learned.progress[-1].payload, "")
    assert all(len(one.values) == 5 for one in entry.asked)
    assert learned.pipeline.learner.n_labels == learned.pipeline.join.counts.answered


def test_what_was_asked_before_a_field_joined_is_learned_without_it():
    learned = Learned(mixed())
    for n in range(4):
        learned.turn(records(10, start=10 * n))
    pipeline, before = learned.pipeline, learned.task
    edition = edition_of(pipeline.learner, pipeline.schema, pipeline.sequence)
    pipeline.journal_extras.fields = {"late": "number"}
    learned.step([], [])
    pipeline.journal_extras = JournalExtras()
    scored = before.step(records(10, start=40), edition, 1_000, 0)
    asked = ScoringLogEntry.decode(scored.entry, "").asked
    answers = [{"id": one.id, "label": "left"} for one in asked]
    effects = learned.step(
        [message(scored.entry, 4)], [message(a, i) for i, a in enumerate(answers)]
    )
    assert len(effects.joined.ids) == len(asked) > 0


@pytest.mark.parametrize("make", [numbers, mixed])
@pytest.mark.quick_once
def test_labels_may_change_and_be_taken_back(make):
    learned = Learned(make())
    asked = [id for n in range(15) for id in learned.turn(records(10, start=10 * n))]
    learner, counts = learned.pipeline.learner, learned.pipeline.join.counts
    first, second = asked[:2]
    other = "left" if learned.truth[first] == "right" else "right"
    answers = [{"id": first, "label": other}, {"id": second, "label": None}]
    learned.step([], [message(one, i) for i, one in enumerate(answers)])
    assert (counts.corrected, counts.retracted) == (1, 1)
    assert learner.label_of(first) == other
    assert learner.label_of(second) is None


def brought(pipeline, id, label):
    """Return a label with the record that it belongs to."""
    record = json.loads(records(1, seed=8)[0].payload)
    features = {name: record[name] for name in pipeline.schema.features}
    return message({"id": id, "label": label, "features": features}, 0)


@pytest.mark.parametrize("make", [numbers, mixed])
def test_null_with_features_takes_a_label_back_and_it_may_be_given_again(make):
    learned = Learned(make())
    pipeline = learned.pipeline
    counts, learner = pipeline.join.counts, pipeline.learner
    learned.step([], [brought(pipeline, "other", "left")])
    forget(learned)
    learned.step([], [brought(pipeline, "other", None)])
    assert learner.label_of("other") is None
    assert (counts.retracted, counts.empty_label) == (1, 0)
    learned.step([], [brought(pipeline, "other", "right")])
    assert learner.label_of("other") == "right"
    assert (counts.records, counts.unsolicited, counts.corrected) == (1, 1, 1)


@pytest.mark.parametrize("make", [numbers, mixed])
def test_correction_that_brings_features_is_no_new_record(make):
    learned = Learned(make())
    pipeline = learned.pipeline
    learned.step([], [brought(pipeline, "other", "left")])
    forget(learned)
    learned.step([], [brought(pipeline, "other", "right")])
    counts = pipeline.join.counts
    assert (counts.records, counts.unsolicited, counts.corrected) == (1, 1, 1)
    assert pipeline.learner.label_of("other") == "right"
    assert len(pipeline.learner._rows.training_sample().y) == 1


@pytest.mark.parametrize("make", [numbers, mixed])
def test_label_without_features_is_learned_once_another_brings_them(make):
    learned = Learned(make())
    pipeline = learned.pipeline
    learned.step([], [message({"id": "other", "label": "left"}, 0)])
    learned.step([], [brought(pipeline, "other", "left")])
    assert pipeline.learner.label_of("other") == "left"
    counts = pipeline.join.counts
    assert (counts.early, counts.unsolicited, counts.duplicate, counts.unknown) == (1, 1, 1, 0)
    assert pipeline.join.counters()["waiting_labels"] == 0


def forget(learned):
    """Let the join forget the records that it holds, and what became of them."""
    pipeline = learned.pipeline
    for tick in (10_000_000, 20_000_000):
        pipeline.step(BatchInputs(tick, {}, [], []), None)
    assert pipeline.join.lacks_record("other")


PEOPLE = ("ann", "bob", "dan")


@pytest.mark.slow
def test_labels_that_look_wrong_are_asked_for_again_within_the_budget():
    learned, rng = Learned(mixed(), relabel=0.2), np.random.default_rng(1)
    pipeline, bought, again = learned.pipeline, [], []
    for n in range(60):
        bought += learned.turn(records(10, start=10 * n), answering=False)
        _, *asking = learned.effects[-1].messages.messages_by_sink(learned.outputs)
        new = [
            json.loads(p) for sink, some in asking if sink is learned.outputs.requests for p in some
        ]
        assert all(one["id"] in bought and set(one["features"]) >= {"a", "b"} for one in new)
        again += [one["id"] for one in new]
        asked = [(one["id"], one["excluded_annotators"]) for one in new]
        asked += [
            (one.id, []) for one in ScoringLogEntry.decode(learned.progress[-1].payload, "").asked
        ]
        learned.step([], [message(said(rng, learned.truth, *one), 0) for one in asked])
        ledger = pipeline.learner.ledger
        assert (ledger.requests, ledger.again) == (len(bought) + len(again), len(again))
        assert len(again) <= 0.2 * 0.3 * ledger.records
        assert ledger.requests <= 0.3 * ledger.records
    assert len(again) > 10
    counts = pipeline.join.counts
    assert counts.corrected + counts.duplicate >= len(again) - 1


def said(rng, truth, id, excluded_annotators):
    """Answer a request, as one of those who may; dan errs half the time."""
    who = str(rng.choice([name for name in PEOPLE if name not in excluded_annotators]))
    label = truth[id]
    if who == "dan" and rng.random() < 0.5:
        label = "left" if label == "right" else "right"
    return {"id": id, "label": label, "source": who}


def third_of(payload):
    record = json.loads(payload)
    return "third" if record["a"] + record["b"] < 0.7 else label_of(payload)


@pytest.mark.slow
def test_a_merge_that_is_undone_is_published_and_its_class_is_predicted_again():
    learned = Learned(numbers(), truth=third_of)
    for n in range(30):
        learned.turn(records(10, start=10 * n))
    pipeline, every = learned.pipeline, records(200, start=1_000)
    for tick, command in (
        (2_000, Command("merge", label="third", into="left")),
        (3_000, Command("unmerge", label="third")),
    ):
        effects = pipeline.step(BatchInputs(tick, {}, [], [], commands=[command]), None)
        assert effects.messages.publish is not None
        is_there = "third" in labels_of(task().step(every, learned.edition(), 1, 0))
        assert is_there == ("third" in pipeline.learner.classes) == (command.into is None)


@pytest.mark.parametrize("command", [("merge", "left"), ("drop", None)])
def test_a_class_that_is_mended_is_predicted_no_more_from_the_next_edition_on(command):
    learned = Learned(numbers(), "background", truth=third_of)
    for n in range(30):
        learned.turn(records(10, start=10 * n))
        learned.finish_training()
    pipeline, edition = learned.pipeline, learned.edition()
    assert "third" in pipeline.learner.committee.classes
    kind, into = command
    mended = BatchInputs(2_000, {}, [], [], commands=[Command(kind, label="third", into=into)])
    effects = pipeline.step(mended, None)
    assert effects.messages.publish is not None
    assert effects.promoted is None, "its successor is still being trained"
    every = records(200, start=1_000)
    assert "third" in labels_of(task().step(every, edition, 1, 0))
    assert labels_of(task().step(every, learned.edition(), 1, 0)) == {"left", "right"}
    scored = learned.task.step(records(40, start=300), edition, 1_000, 0)
    effects = learned.step([message(scored.entry, 30)], [])
    assert len(effects.asked) > 0
    assert set(effects.scored.labels) <= {"left", "right"}
    shown = [json.loads(r) for r in effects.messages.requests]
    assert set().union(*(one["probabilities"] for one in shown)) == {"left", "right"}


def labels_of(step):
    return {json.loads(p)["label"] for p in step.messages.predictions}


def test_fields_that_nobody_knows_are_counted_of_all_records():
    learned = Learned(mixed())
    newer = [json.loads(m.payload) | {"later": {"city": "x"}} for m in records(10)]
    learned.turn([message(one, i) for i, one in enumerate(newer)])
    learned.turn(records(10, start=10))
    assert learned.pipeline.counters()["fields"]["unknown"] == {"later.city": 10}


def test_the_learner_tells_who_scores_each_partition():
    learned = Learned(numbers())
    for n in range(3):
        learned.turn(records(10, start=10 * n))
    (worker,) = learned.pipeline.counters()["workers"].values()
    assert (worker["worker"], worker["records"], worker["offset"]) == ("here:1:abc", 30, 30)
    assert worker["sequence"] == 3
    assert worker["rate"] > 0


def test_what_is_asked_is_shown_as_it_was_written():
    learned = Learned(numbers())
    learned.turn(records(20), answering=False)
    shown = [json.loads(r) for r in learned.effects[-1].messages.requests]
    assert [one["id"] for one in shown] == learned.effects[-1].asked.ids
    assert all(set(one["features"]) == {"a", "b"} for one in shown)
    writes = learned.effects[-1].messages.messages_by_sink(learned.outputs)
    assert [payloads for _, payloads in writes] == [[]], "scorers have written them"
