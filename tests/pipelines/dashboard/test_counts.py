"""Counters of records and labels, with lost and waiting messages."""

from streamboost.pipelines.dashboard.counts import counters_table
from streamboost.pipelines.dashboard.view import StatusSnapshot
from tests.pipelines.dashboard.test_tables import texts

JOIN = {"records": 6_494, "labels": 1_348, "answered": 865, "duplicate": 333, "held_records": 6_494}


def shown(join, **documents):
    about = {"pipeline": {"name": "p"}}
    return counters_table(StatusSnapshot(documents={**about, "join": join, **documents}))


def test_what_became_of_labels_is_counted_with_what_that_means():
    rows = [texts(row) for row in shown(JOIN).rows]
    assert ["duplicate", "333", "further labels of a record with the same value (dropped)"] in rows
    assert [row[0] for row in rows] == [
        "records",
        "labels",
        "first labels",
        "duplicate",
        "records kept for late labels",
    ]


def test_where_nothing_is_lost_or_waits_that_is_said():
    assert shown(JOIN).summary == "Nothing is lost, and no label waits for its record."


def test_what_is_lost_and_what_waits_is_said_first():
    lost = {"late": 3, "unknown": 1, "waiting_labels": 2, "dead_letters": 12}
    table = shown(JOIN | lost)
    assert table.summary == (
        "12 messages could not be used. 4 labels had no effect. 2 labels wait for their record."
    )
    links = {row[0]: row[1].link for row in table.rows if not isinstance(row[1], str)}
    assert links == {"dead letters": "/dead-letters?pipeline=p"}
    gone = shown(JOIN | {"lost_batches": 1, "deleted_unread": 5}).summary
    assert gone == "1 batch of labels is lost. 5 messages were deleted before they were read."
    one = shown(JOIN | {"waiting_labels": 1, "dead_letters": 1}).summary
    assert one == "1 message could not be used. 1 label waits for its record."


def test_a_learner_apart_counts_what_was_asked_about():
    (row, *_) = shown(JOIN, workers={"0": {}}).rows
    assert texts(row)[2] == "requested records received by the learner (scorers predict all)"


def test_what_became_of_requests_adds_up():
    ledger = {"requests": 598, "answered": 534, "expired": 26, "again": 3}
    table = shown(JOIN | {"expired": 1, "open_requests": 38}, ledger=ledger)
    assert table.summary == (
        "1 label had no effect. 598 labels requested: 534 answered, 26 expired without an "
        "answer, 38 open."
    )
    rows = {texts(row)[0]: texts(row)[1:] for row in table.rows}
    assert [name for name in rows if "answered" in name] == ["requests answered"], "one count"
    counted = ("requests answered", "requests expired", "open requests")
    assert [rows[name][0] for name in counted] == ["534", "26", "38"]
    assert rows["requests"] == [
        "598",
        "labels requested: the sum of the rows below, 3 of them relabel requests",
    ]
    assert rows["expired"][0] == "1", "a label that came too late"


def test_requests_whose_answers_were_of_no_use_are_counted_too():
    ledger = {"requests": 10, "answered": 5, "expired": 1}
    table = shown(JOIN | {"open_requests": 3}, ledger=ledger)
    assert (
        "5 answered, 1 expired without an answer, 1 answered after eviction, 3 open."
        in table.summary
    )
    assert ["requests dropped", "1"] in [texts(row)[:2] for row in table.rows]


def test_labels_learned_and_labels_of_the_metrics_have_rows_of_their_own():
    """The overview shows the first number, and the metrics of the quality page the second."""
    documents = {"learner": {"labels": 870}, "evaluation": {"since_start": {"answered": 560}}}
    rows = {texts(row)[0]: texts(row)[1] for row in shown(JOIN, **documents).rows}
    assert rows["first labels"] == "865"
    assert rows["labels learned"] == "870"
    assert rows["labels of the metrics"] == "560"
