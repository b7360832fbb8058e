"""Requested or labelled records in the status: retention, filters, and causes of errors."""

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.connectors.messages.schema import Schema
from streamboost.pipelines.dashboard.record import (
    disagreement_text,
    is_disputed,
    record_history_texts,
)
from streamboost.pipelines.status import labelled_records
from streamboost.pipelines.status.annotators import current_votes
from streamboost.pipelines.status.file import FILE, StatusFile
from streamboost.pipelines.status.reader import StatusReader
from streamboost.pipelines.status.record_filter import RecordFilter
from tests.pipelines.publishing import answer, open_in, published, run
from tests.pipelines.runner import test_relabelling as relabelling
from tests.pipelines.status.test_publisher import replayed


@pytest.fixture
def judged_world(grown, tmp_path):
    world, truth = grown
    run(world, tmp_path)
    world.feed(records_after(300, 100))
    with published(world.loop, tmp_path) as publisher:
        world.run()
        publisher.between_batches()
        publisher._writer.wait_until_idle(10)
    return world, truth


def records_after(start, n):
    from tests.pipelines.conftest import make_records

    return make_records(n, start=start)[0]


@pytest.mark.slow
def test_every_record_that_was_labelled_says_what_it_was_taken_for(judged_world, reader):
    world, truth = judged_world
    predicted = {one["id"]: one["label"] for one in world.read("predictions")}
    found = reader.labelled_records(RecordFilter(), limit=1_000)
    assert {one["id"] for one in found} == {str(i) for i in range(120)}
    for one in found:
        assert (one["truth"], one["label"]) == (truth[int(one["id"])], predicted[one["id"]])
        assert one["labels"][-1][1] == one["truth"]
        assert one["features"]["a"] == pytest.approx(
            json.loads(list(world.records.payloads())[int(one["id"])])["a"], rel=1e-6
        )


def test_a_cell_of_the_confusion_matrix_leads_to_its_records(judged_world, reader):
    found = reader.labelled_records(RecordFilter("left", "right"))
    every = reader.labelled_records(RecordFilter(), limit=1_000)
    assert {one["id"] for one in found} == {
        one["id"] for one in every if (one["truth"], one["label"]) == ("left", "right")
    }
    assert reader.labelled_records(RecordFilter("none")) == []
    assert len(reader.labelled_records(RecordFilter(), limit=7)) == 7


def test_records_are_chosen_by_who_labelled_them_by_version_and_by_being_mistaken(tmp_path):
    def row(time, truth, said, version, *labels):
        about = {"id": "?", "version": version, "labels": labels}
        about["probabilities"] = {"sky": 0.9, "grass": 0.1}
        return time, truth, said, json.dumps(about)

    rows = {
        "1404": row(5, "grass", "sky", 12, [1, "sky", "ann"], [2, "grass", "bob"]),
        "right": row(4, "grass", "grass", 12, [1, "grass", "ann"]),
        "early": row(3, "grass", "sky", 3, [1, "grass", "bob"]),
        "unsaid": row(2, "grass", None, None, [1, "grass", None]),
        "unlabelled": row(1, None, "sky", 12),
    }
    rows = {id: (*one[:3], one[3].replace("?", id)) for id, one in rows.items()}
    file = StatusFile(tmp_path / FILE)
    file.write({"records": rows})
    reader = StatusReader(tmp_path)

    def ids(**choice):
        choice = RecordFilter(**choice)
        found = [one["id"] for one in reader.labelled_records(choice)]
        assert reader.count_records(choice) == len(found)
        return found

    assert ids() == ["1404", "right", "early", "unsaid"]
    assert ids(wrong=True) == ["1404", "early"]
    assert ids(wrong=True, since=12) == ids(wrong=True, since=4, until=12) == ["1404"]
    assert ids(wrong=True, since=3, until=11) == ["early"]
    assert ids(by="bob") == ["1404", "early"]
    assert ids(by="ann", truth="grass", said="grass") == ["right"]
    assert ids(by="nobody") == []
    assert ids(confident=True) == ids(confident=True, wrong=True) == ["1404", "early"]
    assert ids(contested=True) == ids(contested=True, by="bob") == ["1404"]
    assert ids(contested=True, by="ann", said="sky") == ["1404"]
    assert ids(contested=True, by="ann", said="grass") == []
    assert [one["id"] for one in reader.labelled_records(RecordFilter(), 2, 1)] == [
        "right",
        "early",
    ]
    both = [("grass", "sky", 2), ("grass", None, 1), ("grass", "grass", 1)]
    assert reader.class_counts(RecordFilter(truth="grass")) == both
    assert reader.class_counts(RecordFilter(wrong=True, since=12)) == [("grass", "sky", 1)]
    file.close()


def test_a_record_is_contested_by_what_each_said_last(tmp_path):
    def row(*labels):
        return 1, "a", "a", json.dumps({"labels": labels})

    rows = {
        "three": row([1, "a", "ann"], [2, "b", "bob"], [3, "b", "eve"]),
        "mended": row([1, "b", "ann"], [2, "a", "bob"], [3, "a", "ann"]),
        "taken back": row([1, "b", "ann"], [2, "a", "bob"], [3, None, "ann"]),
        "unnamed": row([1, "a", None], [2, "b", "ann"]),
        "own": row([1, "b", "bob"], [2, "a", "bob"]),
    }
    file = StatusFile(tmp_path / FILE)
    file.write({"records": rows})
    reader = StatusReader(tmp_path)
    assert reader.count_records(RecordFilter(contested=True)) == 2
    assert reader.count_records(RecordFilter(contested=True, by="ann")) == 2
    assert reader.count_records(RecordFilter(contested=True, by="bob")) == 1
    assert (
        reader.count_records(RecordFilter(by="ann"))
        == reader.count_records(RecordFilter(by="bob"))
        == 3
    )
    file.close()


NAMES = ("ann", "bob", "eve", "unknown annotator", "", None)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["a", "b", "True", "2"]),
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.sampled_from(["a", "b", True, 2, None]),
            st.sampled_from(NAMES),
        ),
        max_size=7,
    ),
)
@pytest.mark.slow
def test_what_is_chosen_as_disputed_or_contested_is_what_its_page_calls_so(truth, labels):
    found = {"labels": labels, "truth": truth}
    votes = current_votes(labels)
    differ = [
        name
        for name in NAMES
        if any(a.source == name and a.label != b.label for a in votes for b in votes)
    ]
    with TemporaryDirectory() as folder:
        file = StatusFile(Path(folder) / FILE)
        file.write({"records": {"7": (1, truth, "a", json.dumps({"labels": labels}))}})
        count = StatusReader(Path(folder)).count_records
        assert (
            count(RecordFilter(disputed=True))
            == is_disputed(found)
            != count(RecordFilter(disputed=False))
        )
        assert (
            count(RecordFilter(contested=True))
            == (disagreement_text(found) is not None)
            == bool(differ)
        )
        for name in set(NAMES) - {None}:
            assert count(RecordFilter(contested=True, by=name)) == (name in differ)
        file.close()


def test_a_label_that_was_taken_back_disputes_nothing():
    taken_back = [[1, "a", "ann"], [2, None, "bob"], [3, "b", "eve"]]
    assert not is_disputed({"truth": "b", "labels": taken_back})
    assert is_disputed({"truth": "b", "labels": [*taken_back, [4, "a", "ann"]]})


def test_labels_tell_of_versions_as_many_mistakes_as_are_listed_and_no_disputed_ones(tmp_path):
    def row(time, truth, said, *labels):
        value = {"version": 1 + time % 2, "propensity": 0.5, "labels": labels}
        return time, truth, said, json.dumps(value)

    disputed = [1, "a", "ann"], [2, "b", "bob"]
    rows = {
        "wrong": row(1, "a", "b", [1, "a", "ann"]),
        "right": row(2, "a", "a", [1, "a", "ann"]),
        "open": row(3, "b", "a", *disputed),
        "open, too": row(4, "b", "b", *disputed),
        "settled": row(5, "b", "a", *disputed, [3, "b", "eve"]),
        "taken back": row(6, "b", "a", [1, "a", "ann"], [2, None, "ann"], [3, "b", "eve"]),
    }
    file = StatusFile(tmp_path / FILE)
    file.write({"records": rows})
    reader = StatusReader(tmp_path)
    told = reader.labelled_predictions()
    for version in (1, 2):
        choice = RecordFilter(wrong=True, since=version, until=version, disputed=False)
        mistakes = [one for one in told if one.version == version and one.said != one.truth]
        assert len(mistakes) == reader.count_records(choice) > 0
    assert len(told) == len(rows) - 2
    assert {one.source for one in told} >= {"ann", "eve"}, "those of the newest labels"
    file.close()


def test_a_request_has_its_version_its_chances_and_what_made_it_so(judged_world, reader):
    world, _ = judged_world
    sent = {one["id"]: one for one in world.read("predictions")}
    asked = [one for id in open_in(world) if (one := reader.labelled_record(id))]
    explained = [one for one in asked if one.get("why")]
    assert explained
    for one in explained:
        assert one["truth"] is None
        assert one["version"] == sent[one["id"]]["version"] > 0
        assert one["margin"] == pytest.approx(sent[one["id"]]["margin"])
        why, committee = one["why"], world.pipeline.versions.committee(one["version"])
        x = np.array([[one["features"]["a"], one["features"]["b"]]], dtype=np.float32)
        scores = dict(zip(map(str, committee.classes), committee.class_scores(x)[0], strict=True))
        for k, name in enumerate(why["classes"]):
            parts = sum(feature[1 + k] for feature in why["features"])
            total = parts + why["others"][k] + why["base"][k]
            assert total == pytest.approx(scores[name], abs=1e-3)


@pytest.mark.slow
def test_a_record_with_reasons_keeps_what_was_usual_when_it_came(judged_world, reader):
    explained = [
        one for one in map(reader.labelled_record, reader.request_ids()) if one and one.get("why")
    ]
    assert explained
    newest = {one["name"]: one for one in reader.document("features")["features"]}
    for one in explained:
        assert one["usual"].keys() == {row[0] for row in one["why"]["features"]} & newest.keys()
        for name, (mean, deviation) in one["usual"].items():
            assert mean == pytest.approx(newest[name]["mean"], abs=newest[name]["deviation"])
            assert deviation > 0


@pytest.mark.slow
def test_all_records_that_are_kept_are_counted(judged_world, reader):
    assert (
        reader.count_records(None)
        == len(reader.record_rows())
        > reader.count_records(RecordFilter())
        > 0
    )


@pytest.mark.slow
def test_a_correction_is_added_to_what_was_said_before(judged_world, tmp_path, reader):
    world, truth = judged_world
    id = reader.labelled_records(RecordFilter(), limit=1)[0]["id"]
    other = {"left": "right", "right": "left"}[truth[int(id)]]
    world.feed(labels=[{"id": id, "label": other, "source": "eve"}])
    run(world, tmp_path)
    found = reader.labelled_record(id)
    assert [one[1] for one in found["labels"]] == [truth[int(id)], other]
    assert (found["truth"], found["labels"][-1][2]) == (other, "eve")


def test_a_record_that_is_asked_about_again_keeps_what_was_said_of_it(make_world, tmp_path, reader):
    world = relabelling.made(make_world)
    with published(world.loop, tmp_path) as publisher:
        relabelling.streamed(world, answers=False, text="seen by whoever answers")
        publisher.between_batches()
        publisher._writer.wait_until_idle(10)
    again = [one for one in reader.requests() if "excluded_annotators" in one]
    assert again
    predicted = {one["id"]: (one["label"], one["version"]) for one in world.read("predictions")}
    for one in again:
        found = reader.labelled_record(one["id"])
        assert [found["truth"]] == [label for _, label, _ in found["labels"]]
        assert found["asked"]
        assert (found["label"], found["version"]) == predicted[one["id"]]
        assert "it was asked about again" in " ".join(
            text for text, *_ in record_history_texts(found)
        )
        assert one["fields"] == found["fields"] == {"text": "seen by whoever answers"}


@pytest.mark.parametrize(("rule", "truth"), [("vote", "b"), ("last", "a"), (None, "a")])
def test_of_several_labels_that_one_is_the_truth_which_the_pipeline_goes_by(rule, truth):
    rows, schema = labelled_records.LabelledRecordRows(), Schema(numeric=("x",))
    said = [("a", "ann"), ("b", "bob"), ("b", "eve"), ("a", "ann")]
    told = [
        labelled_records.LabelEvent("1", label, tick, source)
        for tick, (label, source) in enumerate(said)
    ]
    rows.update(
        labelled_records.LabelledChanges([("1", one) for one in told], on_conflict=rule), schema
    )
    assert rows.rows["1"][1] == truth


@pytest.mark.slow
def test_what_was_kept_outlives_the_run(judged_world, tmp_path, reader):
    world, _ = judged_world
    before = {one["id"]: one for one in reader.labelled_records(RecordFilter(), limit=1_000)}
    world.loop = replayed(world)
    world.feed(records_after(400, 10))
    run(world, tmp_path)
    assert {
        one["id"]: one for one in reader.labelled_records(RecordFilter(), limit=1_000)
    } == before


def test_of_very_many_the_newest_are_kept_within_bounds(grown, tmp_path, reader, monkeypatch):
    monkeypatch.setattr(labelled_records, "MOST", 50)
    world, truth = grown
    run(world, tmp_path)
    asked = sorted(open_in(world), key=int)[-10:]
    answer(world, truth, map(int, asked))
    run(world, tmp_path)
    kept = reader.record_rows()
    assert len(kept) <= 50
    assert {id for id, *_ in kept} >= set(asked)
    assert reader.labelled_record("0") is None


@pytest.mark.slow
def test_ids_are_found_by_how_they_begin(judged_world, reader):
    found = reader.ids_with_prefix("11")
    assert {"11", "110", "119"} <= set(found)
    assert all(id.startswith("11") for id in found)
    assert reader.ids_with_prefix("%") == []


def test_a_version_keeps_what_it_was_made_of_and_how_much_it_predicted(judged_world, reader):
    world, _ = judged_world
    versions = reader.versions()
    last = versions[-1]
    assert last["version"] == world.pipeline.learner.committee.version
    assert set(last["importances"]) <= {"a", "b"}
    assert sum(last["importances"].values()) == pytest.approx(1.0, abs=1e-3)
    assert reader.document("importances") == last["importances"]
    assert last["labels"] > 0
    assert (last["knows"], last["features"]) == (["left", "right"], 2)
    by = Counter(one["version"] for one in world.read("predictions"))
    assert last["predicted"] == by[last["version"]] > 0


@pytest.mark.slow
def test_what_labels_tell_of_a_committee_leaves_out_what_came_before_there_was_one(
    judged_world, tmp_path, reader
):
    world, _ = judged_world
    world.feed(labels=[{"id": id, "label": "left"} for id in open_in(world)])
    run(world, tmp_path)
    sent = {one["id"]: one for one in world.read("predictions")}
    asked = [one for one in reader.labelled_records(RecordFilter(), limit=1_000) if one["asked"]]
    told = [one for one in asked if sent[one["id"]]["version"] > 0]
    assert reader.labelled_predictions()
    assert sorted(one[:-1] for one in reader.labelled_predictions()) == sorted(
        (
            sent[one["id"]]["version"],
            one["truth"],
            sent[one["id"]]["label"],
            one["propensity"],
            one["arrived"],
        )
        for one in told
    )
