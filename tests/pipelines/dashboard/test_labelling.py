"""Answers on the labelling page, and permissions to change them."""

from streamboost.pipelines.dashboard import labelling
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.store import LabellingEntry

ANN, BOB = User("ann", "1"), User("bob", "2", "operator")


def entry(number, person, id, action="label", label="a", stage="written"):
    return LabellingEntry(number, 0, person, "seat", id, 1, action, label, stage)


def test_somebody_changes_their_own_newest_answer_of_a_record_and_an_operator_anybodys():
    entries = [
        entry(6, "ann", "9", "skip", None, "noted"),
        entry(5, "ann", "7", label="b"),
        entry(4, "ann", "7"),
        entry(3, "ann", "8", stage="undone"),
        entry(2, "ann", "8"),
        entry(1, "bob", "5"),
    ]

    def changeable(person):
        return [
            one["number"]
            for one in labelling.answer_history_rows(entries, {}, person)
            if one["changeable"]
        ]

    assert changeable(ANN) == [5, 2]
    assert changeable(BOB) == [5, 2, 1]


def test_what_somebody_else_said_of_a_record_stands_beside():
    said = {"7": [("ann", "a"), ("bob", "b\u202e")]}
    rows = labelling.answer_history_rows([entry(1, "ann", "7"), entry(2, "ann", "8")], said, ANN)
    assert [one["others"] for one in rows] == ["bob: b⟨U+202E⟩", ""]


def test_an_answer_that_came_too_late_says_so_and_is_none_to_change():
    (row,) = labelling.answer_history_rows([entry(1, "ann", "7", stage="late")], {}, ANN)
    assert (row["state"], row["changeable"]) == ("came too late", False)


def test_answers_are_said_in_words():
    entries = [
        entry(3, "ann", "1", "skip", None, "noted"),
        entry(2, "ann", "2", "not_sure", None, "undone"),
        entry(1, "ann", "3", stage="held"),
    ]
    rows = labelling.answer_history_rows(entries, {}, ANN)
    assert [(one["answer"], one["state"]) for one in rows] == [
        ("skipped", "recorded"),
        ("not sure", "undone"),
        ("a", "can be undone"),
    ]


def test_a_written_answer_names_the_version_that_learned_it():
    rows = labelling.answer_history_rows([entry(1, "ann", "3")], {}, ANN, {1: "in version 151"})
    assert rows[0]["state"] == "learned in version 151"
    assert (
        labelling.answer_history_rows([entry(1, "ann", "3")], {}, ANN, {1: ""})[0]["state"]
        == "written"
    )
