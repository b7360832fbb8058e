"""What the page of versions says of those that are chosen."""

from nicegui import Client, ui

from streamboost.pipelines.service.pages.causes.versions import Versions
from streamboost.pipelines.service.pages.view import View
from streamboost.pipelines.service.pages.widgets import Tag
from tests.pipelines.service.pages.test_causes import version
from tests.pipelines.service.pages.test_recalls import said


def shown(told, known, a=None, b=None):
    """Return the page's sides and, by the ids of its panels, their texts."""
    learner = {"version": max(known), "versions": []}
    view = View(documents={"pipeline": {"name": "p"}, "learner": learner})
    with Client(ui.page("/")) as client:
        page = Versions([version(n) for n in known], told, view, a, b)
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
        "No version was chosen: 2 is one since which 90 of the 150 labels came" in panels["since"]
    )
    _, panels = shown(TOLD, [8, 9], b=2)
    assert (
        "No version was chosen: 2 is one since which 40 of the 100 labels came" in panels["since"]
    )
    assert "No version was chosen" not in shown(TOLD, [8, 9], a=2)[1]["since"]


def test_of_a_version_between_others_it_is_said_that_nothing_is_kept_as_it_stands_in_the_menu():
    _, panels = shown(TOLD, [8, 9], a=2, b=5)
    assert "Nothing that counts here is kept of version 5.\n" in panels["since"]
    assert (
        "Not offered, as nothing that counts here is kept of them: 3, 4, 6, 7." in panels["since"]
    )
    _, panels = shown(TOLD, [8, 9], a=0, b=99)
    for wanted, nearest in ((0, 1), (99, 9)):
        text = f"Nothing that counts here is kept of version {wanted}; {nearest} is the nearest."
        assert text in panels["since"]
    _, panels = shown(TOLD, [8, 9], a=5, b=5)
    assert panels["since"].count("Nothing that counts here is kept of version 5.") == 1
    assert "Nothing that" not in shown(TOLD, [8, 9], a=2, b=9)[1]["since"]


def test_no_version_stands_beside_itself():
    for a, b in ((1, 2), (None, 8), (9, 9), (None, 2)):
        sides, panels = shown(TOLD, [8, 9], a, b)
        assert len(set(sides)) == 1
        text = f"Nothing stands beside version {sides[0]}: for both it is the nearest known."
        assert text in panels["beside"]
        assert "weigh" not in panels
    sides, panels = shown(TOLD, [8, 9], 8, 9)
    assert sides == (8, 9)
    assert panels["beside"].startswith("Version 8 beside 9")
    assert "weigh" in panels
