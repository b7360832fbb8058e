"""The task of a partition continues after a reassignment as if it had not moved."""

import json
from dataclasses import replace

import numpy as np
import pytest

from streamboost.errors import ConnectorError, StateError
from streamboost.pipelines.distributed.partition_task import PartitionTask
from streamboost.pipelines.distributed.scoring_log import ScoringLogEntry
from tests.pipelines.distributed.sharing import (
    edition_of,
    judged,
    message,
    mixed,
    numbers,
    recorded,
    records,
    settings,
    task,
    taught,
)


def run(edition, given, newest=None, messages=(), field=None):
    """Have a task, resumed if there is an entry, take batches; return their steps."""
    one = task(newest, field=field)
    if newest is not None:
        start, end = one.replay_range
        one.restore([m for m in messages if start <= m.offset < end], edition)
    return [one.step(batch, edition, 1_000, 0) for batch in given]


def entry_of(step):
    return ScoringLogEntry.decode(step.entry, "here")


@pytest.mark.parametrize("make", [numbers, mixed])
@pytest.mark.parametrize("cut", [1, 2, 7])
def test_whoever_takes_a_partition_over_goes_on_in_the_same_bits(make, cut):
    schema = make()
    edition, every = edition_of(taught(schema), schema), records(80)
    batches = [every[i : i + 10] for i in range(0, 80, 10)]
    straight = run(edition, batches)
    first = run(edition, batches[:cut])
    second = run(edition, batches[cut:], entry_of(first[-1]), every)
    assert [step.entry for step in first + second] == [step.entry for step in straight]
    assert sum(len(step.messages.requests) for step in straight) > 10


@pytest.mark.parametrize("cut", [1, 7])
def test_recorded_predictions_continue_in_the_same_bits_after_a_reassignment(cut):
    edition, every = edition_of(taught(recorded()), recorded()), judged(80)
    batches = [every[i : i + 10] for i in range(0, 80, 10)]
    straight = run(edition, batches, field="score")
    first = run(edition, batches[:cut], field="score")
    second = run(edition, batches[cut:], entry_of(first[-1]), every, field="score")
    assert [step.entry for step in first + second] == [step.entry for step in straight]
    one = entry_of(straight[3])
    assert one.recorded == {"valid": 8, "labels_alone": 3, "missing": 1, "malformed": 1}
    assert [json.loads(p)["label"] for p in straight[3].messages.predictions][:2] == [None, None]


def test_requests_follow_the_doubts_about_the_recorded_prediction():
    every = judged(300, predict=lambda i, y: {"left": 0.99, "right": 0.01 if i % 2 else 0.99})
    edition = edition_of(taught(recorded()), recorded())
    steps = run(edition, [every[i : i + 30] for i in range(0, 300, 30)], field="score")
    asked = [one for step in steps for one in entry_of(step).asked]
    assert 300 * 0.25 < len(asked) <= 300 * 0.3
    assert np.mean([one.offset % 2 == 0 for one in asked]) > 0.7


def test_a_partition_keeps_within_its_share_at_every_record():
    edition, every = edition_of(taught(numbers()), numbers()), records(300)
    steps = run(edition, [every[i : i + 30] for i in range(0, 300, 30)])
    told = [json.loads(p) for step in steps for p in step.messages.predictions]
    spent = np.cumsum([p["asked"] for p in told])
    assert (spent <= 0.3 * np.arange(1, 301) + 1e-9).all()
    assert spent[-1] > 60


@pytest.mark.parametrize(("partitions", "burst"), [(1, 20), (4, 5), (100, 3)])
def test_partitions_share_the_burst(partitions, burst):
    assert task(partitions=partitions)._querier.config.burst == burst


def test_an_entry_says_what_it_read_and_by_what_it_was_predicted():
    edition = edition_of(taught(numbers()), numbers(), 12)
    step = run(edition, [[*records(9, start=100), message(b"{", 120)]])[0]
    entry = entry_of(step)
    assert (entry.start, entry.end, entry.records, entry.dead) == (100, 121, 9, 1)
    assert (entry.edition, entry.version, entry.sequence) == (12, edition.version, 1)
    assert entry.decode_sums().tally.n_records + len(entry.asked) == 9
    assert [json.loads(p)["partition"] for p in step.messages.predictions] == [0] * 9


def test_a_batch_without_any_record_is_a_batch():
    edition = edition_of(taught(numbers()), numbers())
    step = run(edition, [[message(b"{", 3)]])[0]
    assert entry_of(step).end == 4
    assert [json.loads(d)["reason"] for d in step.messages.dead_letters] == ["bad_json"]


def test_an_id_that_its_partition_had_just_now_is_a_dead_letter():
    edition = edition_of(taught(numbers()), numbers())
    first = records(3)
    again = message(first[1].payload, 3)
    steps = run(edition, [first, [again]])
    assert [json.loads(d)["reason"] for d in steps[1].messages.dead_letters] == ["duplicate_id"]
    assert steps[1].messages.predictions == []


def test_records_of_a_topic_that_was_made_again_are_refused():
    edition = edition_of(taught(numbers()), numbers())
    one = PartitionTask(0, settings(), 1, None, "first")
    entry = entry_of(one.step(records(3), edition, 1_000, 0))
    assert PartitionTask(0, settings(), 1, entry, "first").next == 3
    assert PartitionTask(0, settings(), 1, entry, None).next == 3
    with pytest.raises(ConnectorError, match="was deleted and recreated"):
        PartitionTask(0, settings(), 1, entry, "second")


def test_what_is_no_entry_is_refused():
    with pytest.raises(StateError, match="offset 3 is not a valid scoring log entry"):
        ScoringLogEntry.decode(b'{"format": 99}', "offset 3")
    with pytest.raises(StateError, match="not a valid scoring log entry"):
        ScoringLogEntry.decode(b"[]", "offset 3")


def test_a_partition_leaves_what_is_set_apart_for_asking_again():
    edition, every = edition_of(taught(numbers()), numbers()), records(300)
    one = PartitionTask(0, settings(relabel=0.4), 8, None)
    assert one._querier.config.burst == 4
    steps = [one.step(every[i : i + 30], edition, 1_000, 0) for i in range(0, 300, 30)]
    asked = sum(len(step.messages.requests) for step in steps)
    assert 30 < asked <= 0.6 * 0.3 * 300


def test_what_a_task_writes_is_about_the_message_it_read():
    schema = replace(numbers(), include=["place"], probabilities=True)
    every = [*records(40), message(b"{", 50)]
    made = run(edition_of(taught(schema), schema), [every])[0].messages
    at = {json.loads(m.payload)["id"]: m for m in every[:-1]}
    for written in (made.predictions, made.requests):
        assert len(written) > 5
        assert written.about == [at[json.loads(payload)["id"]] for payload in written]
    assert made.dead_letters.about == every[-1:]
    first = json.loads(made.predictions[0])
    assert first["fields"] == {"place": json.loads(every[0].payload)["place"]}
    assert set(first["probabilities"]) == {"left", "right"}
