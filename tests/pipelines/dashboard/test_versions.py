"""The page of model versions, and the comparison of two versions."""

from nicegui import Client, ui

from streamboost.pipelines.dashboard.recall_by_version import RecallChange, overall_recall
from streamboost.pipelines.dashboard.versions import (
    VersionComparison,
    comparison_table,
    importance_table,
    n_labels_to_decide,
    recall_since_table,
    version_effect_table,
    version_table,
)
from streamboost.pipelines.dashboard.view import EvaluationData, StatusSnapshot
from streamboost.pipelines.dashboard.widgets import Tag
from tests.pipelines.dashboard.test_drilldown import version
from tests.pipelines.dashboard.test_recall_by_version import said


def shown(told, known, a=None, b=None):
    """Return the page's sides and, by the ids of its panels, their texts."""
    learner = {"version": max(known), "versions": []}
    view = StatusSnapshot(documents={"pipeline": {"name": "p"}, "learner": learner})
    with Client(ui.page("/")) as client:
        page = VersionComparison([version(n) for n in known], told, view, a, b)
    panels = {}
    for one in client.elements.values():
        if isinstance(one, Tag) and one.tag == "section":
            texts = [part.text for part in one.descendants() if isinstance(part, Tag)]
            panels[one._props["id"]] = "\n".join(texts)
    return page.sides, panels


TOLD = [*said(1, "a", 60, 0), *said(2, "a", 40, 4), *said(9, "a", 50, 5)]


def test_what_came_since_the_version_that_nobody_chose_is_counted():
    _, panels = shown(TOLD, [8, 9])
    assert (
        "Default baseline: version 2; 90 of 150 labels are for this or a later" in panels["since"]
    )
    _, panels = shown(TOLD, [8, 9], b=2)
    assert (
        "Default baseline: version 2; 40 of 100 labels are for this or a later" in panels["since"]
    )
    assert "Default baseline" not in shown(TOLD, [8, 9], a=2)[1]["since"]


def test_of_a_version_between_others_it_is_said_that_nothing_is_kept_as_it_stands_in_the_menu():
    _, panels = shown(TOLD, [8, 9], a=2, b=5)
    assert "No usable labels are kept for version 5.\n" in panels["since"]
    assert "Versions without usable labels: 3, 4, 6, 7." in panels["since"]
    _, panels = shown(TOLD, [8, 9], a=0, b=99)
    for wanted, nearest in ((0, 1), (99, 9)):
        text = f"No usable labels are kept for version {wanted}; {nearest} is the nearest."
        assert text in panels["since"]
    _, panels = shown(TOLD, [8, 9], a=5, b=5)
    assert panels["since"].count("No usable labels are kept for version 5.") == 1
    assert "No usable labels" not in shown(TOLD, [8, 9], a=2, b=9)[1]["since"]


def test_no_version_stands_beside_itself():
    for a, b in ((1, 2), (None, 8), (9, 9), (None, 2)):
        sides, panels = shown(TOLD, [8, 9], a, b)
        assert len(set(sides)) == 1
        text = f"Nothing to compare: both sides are version {sides[0]}, the nearest known."
        assert text in panels["sides"]
        assert "weigh" not in panels
    sides, panels = shown(TOLD, [8, 9], 8, 9)
    assert sides == (8, 9)
    assert panels["sides"].startswith("Version 8 compared with 9")
    assert "weigh" in panels


def test_columns_and_captions_are_words():
    a, b = version(8), version(9)
    for table in (comparison_table(a, b, TOLD), importance_table(a, b)):
        assert table.columns[-1].text == "Change"
    texts = [column.text for column in recall_since_table(TOLD, 9, "test").columns]
    assert texts[1:4] == ["Recall before", "Recall since", "Change"]
    assert version_table([a, b], TOLD, [8], "test").caption == "Versions"


def effect(told, *versions):
    """Return the table of the effect of `versions`, of which the last is active."""
    marks = [{"kind": "promoted", "version": n, "time": 1_000 * n} for n in versions]
    view = StatusSnapshot(
        documents={"pipeline": {"name": "p"}}, marks=marks, evidence=EvaluationData(told)
    )
    return version_effect_table(view)


def test_whether_the_newest_version_helped_is_always_answered():
    assert effect([]).summary == "Shown once a version is deployed."
    few = effect(said(1, "a", 60, 0), 1, 2)
    assert few.summary == "Version 2 has too few labels to decide whether it helped."
    helped = effect([*said(1, "a", 100, 60), *said(2, "a", 100, 10)], 1, 2)
    assert helped.summary.startswith("Version 2 helped: +50.0 points (+")
    worse = effect([*said(1, "a", 100, 10), *said(2, "a", 100, 60)], 1, 2)
    assert worse.summary.startswith("Version 2 made predictions worse: -50.0 points (-")
    same = effect([*said(1, "a", 100, 12), *said(2, "a", 100, 10)], 1, 2)
    assert same.summary.startswith("Undecided whether version 2 helped: +2.0 points (-")
    assert same.summary.endswith(" more labels would decide.")
    assert [row[0].text for row in same.rows] == ["2", "1"]
    assert same.rows[0][0].link == "/versions?pipeline=p&a=2"


def test_the_labels_that_are_missing_would_make_the_interval_as_narrow_as_the_change():
    def change(n):
        sides = [*said(1, "a", n, n // 5)], [*said(2, "a", n, n // 10)]
        return RecallChange("Accuracy", *map(overall_recall, sides))

    missing = n_labels_to_decide(change(50))
    assert missing > 0
    assert n_labels_to_decide(change(2 * (50 + missing))) == 0
    assert n_labels_to_decide(change(max((50 + missing) // 2, 10))) != 0
    assert (
        n_labels_to_decide(RecallChange("Accuracy", None, overall_recall(said(1, "a", 9, 0))))
        is None
    )
