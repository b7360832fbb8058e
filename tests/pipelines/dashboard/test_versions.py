"""The page of model versions, and the comparison of two versions."""

from nicegui import Client, ui

from streamboost.pipelines.dashboard.versions import (
    VersionComparison,
    comparison_table,
    importance_table,
    recall_since_table,
    version_effect_table,
    version_table,
)
from streamboost.pipelines.dashboard.view import EvaluationData, StatusSnapshot
from streamboost.pipelines.dashboard.widgets import Tag
from tests.pipelines.dashboard.test_drilldown import version
from tests.pipelines.dashboard.test_recall_by_version import said


def shown(told, known, a=None, b=None, comparisons=()):
    """Return the page's sides and, by the ids of its panels, their texts."""
    learner, compared = {"version": max(known), "versions": []}, {"versions": comparisons}
    documents = {"pipeline": {"name": "p"}, "learner": learner, "comparisons": compared}
    view = StatusSnapshot(documents=documents, evidence=EvaluationData(told))
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
    assert "Default baseline: version 2; 90 of 150 kept labels are for this" in panels["since"]
    _, panels = shown(TOLD, [8, 9], b=2)
    assert "Default baseline: version 2; 40 of 100 kept labels are for this" in panels["since"]
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


def comparison(baseline, first, last, labels, value, low, high, missing):
    found = None if value is None else {"value": value, "low": low, "high": high}
    named = {"baseline": baseline, "first": first, "last": last, "labels": labels}
    return named | {"difference": found, "missing_labels": missing}


DECIDED = comparison(1, 2, 8, 140, 0.168, 0.013, 0.323, 0)
CURRENT = comparison(8, 9, 9, 310, 0.008, -0.002, 0.018, 917)
WORSE = comparison(8, 9, 12, 400, -0.05, -0.08, -0.02, 0)
NEW = comparison(8, 9, 9, 3, None, None, None, None)


def effect(*comparisons):
    documents = {"pipeline": {"name": "p"}, "comparisons": {"versions": list(comparisons)}}
    return version_effect_table(StatusSnapshot(documents=documents))


def test_whether_the_newest_version_helped_is_always_answered():
    assert effect().summary == "Versions are compared once one has replaced another."
    decided = "Versions 2 to 8 are 16.8 points better than 1 (1.3 to 32.3), on the same 140 labels."
    assert effect(DECIDED).summary == decided
    assert effect(DECIDED, CURRENT).summary == (
        "Version 9 is 0.8 points better than 8 (-0.2 to 1.8): inconclusive, about 920 more labels "
        f"needed. {decided}"
    )
    assert effect(DECIDED, NEW).summary == (
        f"Version 9 is compared with 8: too few labels yet (3 labels). {decided}"
    )
    assert effect(DECIDED, CURRENT | {"missing_labels": None}).summary.startswith(
        "Version 9 is 0.8 points better than 8 (-0.2 to 1.8): inconclusive, too small to decide "
        "within 2,000 labels."
    )
    assert effect(WORSE).summary == (
        "Versions 9 to 12 are 5.0 points worse than 8 (2.0 to 8.0), on the same 400 labels."
    )


def test_comparisons_are_listed_newest_first_with_their_labels():
    rows = effect(DECIDED, CURRENT).rows
    assert [[getattr(cell, "text", cell) for cell in row] for row in rows] == [
        ["9", "8", "310", "+0.8 points (-0.2 to +1.8)", "917"],
        ["2 to 8", "1", "140", "+16.8 points (+1.3 to +32.3)", "0"],
    ]
    assert rows[1][0].link == "/versions?pipeline=p&b=8"
    assert effect(NEW).rows[0][3] == "too few labels"
    assert effect(WORSE).rows[0][3].note == "got worse: "


def test_versions_page_shows_the_comparison_on_the_same_records():
    _, panels = shown(TOLD, [8, 9], comparisons=[DECIDED, CURRENT])
    assert "Version 9 is 0.8 points better than 8" in panels["effect"]


def test_versions_page_uses_the_versions_of_the_comparison_on_the_same_records():
    for b, since, sides in ((None, "Since version 9", (8, 9)), (8, "From version 2 to 8", (1, 8))):
        found, panels = shown(TOLD, [1, 2, 8, 9], b=b, comparisons=[DECIDED, CURRENT])
        assert found == sides
        assert f"\n{since}\n" in panels["since"]
        assert "As in the comparison on the same records above" in panels["since"]
        assert "No model of version" not in panels["sides"]
    _, panels = shown(TOLD, [8, 9, 12], comparisons=[CURRENT | {"first": 10, "last": 12}])
    assert "\nSince version 12\n" in panels["since"], "version 10 was never active"
    sides, panels = shown(TOLD, [1, 2, 8, 9], comparisons=[DECIDED, NEW])
    assert sides == (2, 9)
    assert "Default baseline: version 2" in panels["since"]


def test_effect_says_that_the_active_version_has_no_label_of_its_own():
    lone = "No usable label yet for predictions of version 12; together: Versions 9 to 12 are"
    _, panels = shown(TOLD, [8, 9, 12], comparisons=[WORSE])
    assert lone in panels["effect"]
    _, panels = shown([*TOLD, *said(12, "a", 1, 0)], [8, 9, 12], comparisons=[WORSE])
    assert "No usable label yet" not in panels["effect"]
    _, panels = shown(TOLD, [8, 9], comparisons=[CURRENT])
    assert "No usable label yet" not in panels["effect"]


def test_the_newest_version_is_compared_with_an_earlier_one():
    newest = version_table([version(8), version(9)], TOLD, [], "p").rows[0][0]
    assert newest.link == "/versions?pipeline=p&b=9"
