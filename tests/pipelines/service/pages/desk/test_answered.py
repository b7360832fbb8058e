"""What the labelling page says of answers, and of what they have brought."""

from streamboost.pipelines.service.access.people import Person
from streamboost.pipelines.service.labelling.store import LabellingEntry
from streamboost.pipelines.service.pages.desk import answered
from streamboost.pipelines.service.pages.desk.progress import Gain
from streamboost.pipelines.status.reader import StatusReader

ANN, BOB = Person("ann", "1"), Person("bob", "2", "operator")


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
        return [one["number"] for one in answered.rows(entries, {}, person) if one["changeable"]]

    assert changeable(ANN) == [5, 2]
    assert changeable(BOB) == [5, 2, 1]


def test_what_somebody_else_said_of_a_record_stands_beside():
    said = {"7": [("ann", "a"), ("bob", "b\u202e")]}
    rows = answered.rows([entry(1, "ann", "7"), entry(2, "ann", "8")], said, ANN)
    assert [one["others"] for one in rows] == ["bob: b⟨U+202E⟩", ""]


def test_answers_are_said_in_words():
    entries = [
        entry(3, "ann", "1", "skip", None, "noted"),
        entry(2, "ann", "2", "not_sure", None, "undone"),
        entry(1, "ann", "3", stage="held"),
    ]
    rows = answered.rows(entries, {}, ANN)
    assert [(one["answer"], one["state"]) for one in rows] == [
        ("skipped", "noted"),
        ("not sure", "taken back"),
        ("a", "can be undone"),
    ]


class Told(StatusReader):
    """Accuracies by time."""

    def __init__(self, points):
        self._points = points
        self.asked = 0

    def points(self, since_ms=0):
        self.asked += 1
        return [
            {"time": time, "accuracy": None if value is None else {"value": value}}
            for time, value in self._points
        ]


def test_the_gain_counts_from_the_newest_accuracy_known_at_the_first_label():
    status = Told([(1, None), (2, 0.5), (4, 0.6), (9, 0.8)])
    gain = Gain(status)
    assert gain.since(5, 0.75) == 0.75 - 0.6
    assert gain.since(5, 0.9) == 0.9 - 0.6
    assert status.asked == 1, "what was then does not change"
    assert gain.since(None, 0.9) is gain.since(5, None) is None


def test_the_gain_counts_from_the_first_accuracy_where_none_was_known_then():
    assert Gain(Told([(6, None), (7, 0.5), (9, 0.7)])).since(5, 0.75) == 0.25
    assert Gain(Told([(6, None)])).since(5, 0.75) is None


def test_a_first_label_that_is_taken_back_is_none():
    gain = Gain(Told([(2, 0.5), (6, 0.7)]))
    assert gain.since(3, 0.75) == 0.25
    assert gain.since(8, 0.75) == 0.75 - 0.7
