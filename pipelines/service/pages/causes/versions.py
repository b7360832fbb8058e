"""The committees that served: two side by side, and all that are known."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from streamboost.pipelines.service.pages.causes.recalls import Change, in_order, told_of, worse
from streamboost.pipelines.service.pages.tables import Cell, Column, Table, named, rolled_back
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.service.pages.widgets import DataTable, Tag, show_told
from streamboost.pipelines.status.reader import Status
from streamboost.pipelines.wording import NOTHING, amount, clock, estimate, percent

__all__ = ["Versions", "compared", "importances", "listed"]

FEATURES = 15
"""Features whose importance is compared."""

LISTED = 50
"""Versions listed: the newest."""


class Versions:
    """Two versions side by side, what they go by, and all that are known, as they become more.

    Parameters
    ----------
    versions : those that are known, the oldest first
    view : how things stand
    a, b : those that are chosen: the newest and the one before where they are None or unknown
    """

    def __init__(
        self, versions: Sequence[Status], view: View, a: int | None, b: int | None
    ) -> None:
        self._pipeline = view.document("pipeline").get("name")
        self._shown: Any = self.stamp(view)
        self._menus: list[Tag] = []
        self._offered = {int(one["version"]) for one in versions}
        if not versions:
            with Tag("section", classes="panel"):
                Tag("p", "No committee has served yet: load this page again.", "summary empty")
            return
        known = {int(one["version"]): one for one in versions}
        numbers = sorted(known)
        right = b if b in known else numbers[-1]
        before = [n for n in numbers if n < right]
        left = a if a in known else before[-1] if before else right
        with Tag("section", classes="panel whole", aria_labelledby="beside-title", id="beside"):
            Tag("h2", "Side by side", id="beside-title")
            self._choose(numbers, left, b if b in known else None)
            for wanted in (a, b):
                if wanted is not None and wanted not in known:
                    Tag("p", f"Nothing is kept of version {wanted}.", "about")
            show_told(compared(known[left], known[right], self._pipeline))
        with Tag("section", classes="panel whole", aria_labelledby="weigh-title", id="weigh"):
            Tag("h2", "What they go by", id="weigh-title")
            Tag("p", "What the splits on each feature gain, as a share of all.", "about")
            show_told(importances(known[left], known[right]))
        with Tag("section", classes="panel whole", aria_labelledby="all-title", id="all"):
            Tag("h2", "All that are known", id="all-title")
            self._summary = Tag("p", "", "summary")
            self._table = DataTable()
        self._list(versions, view)

    @staticmethod
    def stamp(view: View) -> Any:
        """Return what differs wherever other versions are known than before."""
        learner = view.document("learner")
        return learner.get("version"), tuple(_kept(view))

    def is_old(self, view: View) -> bool:
        """Whether there are others than those shown."""
        return bool(self._menus) and self.stamp(view) != self._shown

    def update(self, versions: Sequence[Status], view: View) -> None:
        """Show what is known by now; what was chosen, and is compared, stays."""
        self._shown = self.stamp(view)
        for number in sorted({int(one["version"]) for one in versions} - self._offered):
            self._offered.add(number)
            for menu in self._menus:
                # The second menu begins with what serves, whichever that is.
                with menu:
                    place = menu is self._menus[-1]
                    Tag("option", str(number), value=str(number)).move(target_index=int(place))
        self._list(versions, view)

    def _list(self, versions: Sequence[Status], view: View) -> None:
        table = listed(versions, _kept(view), self._pipeline, rolled_back(view))
        self._summary.text = table.summary
        self._table.show_table(table)

    def _choose(self, numbers: Sequence[int], left: int, right: int | None) -> None:
        """Have two menus; the second is the newest version's at the time, while none is chosen."""
        with Tag("form", classes="choose", action="/versions"):
            Tag("input", type="hidden", name="pipeline", value=self._pipeline)
            for name, title, chosen in (("a", "Version", left), ("b", "beside", right)):
                Tag("label", title, for_=f"version-{name}")
                with Tag("select", id=f"version-{name}", name=name) as menu:
                    if name == "b":
                        Tag("option", "the newest", value="")
                    for number in reversed(numbers):
                        is_chosen: dict[str, Any] = {"selected": True} if number == chosen else {}
                        Tag("option", str(number), value=str(number), **is_chosen)
                self._menus.append(menu)
            Tag("button", "Compare")


def _kept(view: View) -> list[int]:
    return [int(one["version"]) for one in view.document("learner").get("versions") or ()]


def compared(a: Status, b: Status, pipeline: str) -> Table:
    """Return what two versions were made of and how they did while they served."""
    columns = [
        Column("Figure", "words"),
        *(Column(f"Version {one['version']}") for one in (a, b)),
        Column("Change"),
    ]
    rows: list[list[str | Cell]] = [
        ["Served from", *(clock(one.get("began")) for one in (a, b)), ""]
    ]
    for title, key in (("Labels learned", "labels"), ("Trees", "trees"), ("Rounds", "rounds")):
        was, now = a.get(key), b.get(key)
        rows.append([title, amount(was), amount(now), _more(was, now)])
    accuracies = (estimate(one.get("accuracy")) for one in (a, b))
    rows.append(["Accuracy", *accuracies, _points(*_values(a, b))])
    left, right = (_recalls(one) for one in (a, b))
    changes = [
        Change(name, left.get(name), right.get(name), told_of(a, b, name))
        for name in sorted({**left, **right}, key=in_order)
    ]
    most = max((abs(one.points) for one in changes if one.points is not None), default=0.0)
    for one in changes:
        link = page_of("/records", pipeline, true=one.name, since=a["version"], wrong="true")
        head = Cell(f"Recall of {one.name}", link=link)
        rows.append([head, estimate(one.was), estimate(one.now), one.cell(most)])
    summary = (
        "As of the newest records that were judged while each served. A class leads to its "
        f"records that were mistaken since version {a['version']}."
    )
    return Table("Two versions side by side", columns, rows, f"{worse(changes)}{summary}")


def _values(a: Status, b: Status) -> tuple[float | None, float | None]:
    found = [one.get("accuracy") for one in (a, b)]
    first, second = (None if one is None else float(one["value"]) for one in found)
    return first, second


def _recalls(one: Status) -> dict[str, Mapping[str, Any] | None]:
    return {str(found["label"]): found.get("recall") for found in one.get("classes") or ()}


def _points(was: float | None, now: float | None) -> Cell:
    """Return a change of shares, in points of a hundred."""
    if was is None or now is None:
        return Cell(NOTHING)
    change = 100 * (now - was)
    colour = "bad" if change < 0 else "good"
    return Cell(f"{change:+.1f} points", bar=min(abs(change) / 20, 1.0), colour=colour)


def _more(was: float | None, now: float | None) -> str:
    return NOTHING if was is None or now is None else f"{now - was:+,}"


def importances(a: Status, b: Status) -> Table:
    """Return what two versions go by, the features first that the second one goes by most."""
    left, right = (one.get("importances") or {} for one in (a, b))
    columns = [
        Column("Feature", "words"),
        *(Column(f"Version {one['version']}") for one in (a, b)),
        Column("Change"),
    ]
    names = sorted({**left, **right}, key=lambda name: -max(left.get(name, 0), right.get(name, 0)))
    most = max((*left.values(), *right.values()), default=0.0) or 1.0
    rows = [
        [
            name,
            *(
                Cell(percent(one.get(name, 0.0)), bar=one.get(name, 0.0) / most, colour="series-1")
                for one in (left, right)
            ),
            f"{100 * (right.get(name, 0.0) - left.get(name, 0.0)):+.1f} points",
        ]
        for name in names[:FEATURES]
    ]
    summary = "" if rows else "Only committees of trees tell what they go by."
    return Table("Importance of features", columns, rows, summary)


def listed(
    versions: Sequence[Status],
    kept: Sequence[int],
    pipeline: str,
    again: Mapping[int, int] = MappingProxyType({}),
) -> Table:
    """Return the versions, the newest first; those that are `kept` can serve again.

    `again` has the number that those had before that were rolled back to.
    """
    columns = [
        Column("Version", "words"),
        Column("Served from", "words"),
        Column("Labels"),
        Column("Trees"),
        Column("Accuracy"),
        Column("Kept", "words"),
    ]
    newest = versions[-1]["version"]
    rows: list[list[str | Cell]] = [
        [
            Cell(
                named(int(one["version"]), again),
                link=page_of("/versions", pipeline, a=one["version"], b=newest),
            ),
            clock(one.get("began")),
            amount(one.get("labels")),
            amount(one.get("trees")),
            estimate(one.get("accuracy")),
            "can serve again" if one["version"] in kept else "no",
        ]
        for one in reversed(versions[-LISTED:])
    ]
    return Table("Versions", columns, rows, f"{len(kept)} are kept whole.")
