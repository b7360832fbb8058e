"""The committees that served: two side by side, and all that are known."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from streamboost.pipelines.service.pages.causes.recalls import (
    FEWEST,
    Change,
    cell,
    changes,
    right,
    shown,
    since,
    worse,
)
from streamboost.pipelines.service.pages.causes.steering import OFFERED
from streamboost.pipelines.service.pages.tables import Cell, Column, Table, named, rolled_back
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.service.pages.widgets import DataTable, Tag, show_told
from streamboost.pipelines.status.reader import Status, Told
from streamboost.pipelines.wording import NOTHING, amount, clock, percent, plural

__all__ = ["Versions", "compared", "importances", "listed"]

FEATURES = 15
"""Features whose importance is compared."""

_ABOUT = (
    "Of the records of each class, the share that was predicted as it on arrival (its recall), "
    f"with its 95 % interval, and of how many labels; of fewer than {FEWEST}, how many. Only "
    "labels that were asked for count, each by its chance of being asked for, so that they speak "
    "for all records; what was predicted before the first committee does not count. Where some "
    "stand for many more records than others, they tell less: 82 worth 19 tell as much as 19 that "
    "stand for as many each. A change has in brackets what chance leaves possible, for all classes "
    f"together; of labels worth fewer than {FEWEST} none is judged. Those that got worse come "
    "first, then the others by how far they fell, last those of which too few labels tell."
)


class Versions:
    """What changed since a version, two side by side, what they go by, and all that are known.

    Parameters
    ----------
    versions : those that are known, the oldest first
    told : what the labels tell of them, by when their records came
    view : how things stand
    a, b : those that are chosen, in either order, or the nearest of which something is kept. Where
        `b` is None, it is the newest, and where `a` is, that since which half of what is `told` by
        then came

    Attributes
    ----------
    sides : the numbers of the two; none where no version is known
    """

    def __init__(
        self,
        versions: Sequence[Status],
        told: Sequence[Told],
        view: View,
        a: int | None,
        b: int | None,
    ) -> None:
        self._pipeline = view.document("pipeline").get("name")
        self._shown: Any = self.stamp(view)
        self._menus: list[Tag] = []
        self._beside: int | None = None
        self._offered = {int(one["version"]) for one in versions}
        self.sides: tuple[int, ...] = ()
        if not versions:
            with Tag("section", classes="panel"):
                Tag("p", "No committee has served yet: load this page again.", "summary empty")
            return
        if a is not None and b is not None and b < a:
            a, b = b, a
        again = rolled_back(view)
        known = {int(one["version"]): one for one in as_copies(versions, again)}
        numbers = sorted(known)
        self._beside = _nearest(b, numbers)
        last = numbers[-1] if self._beside is None else self._beside
        first = _nearest(a, numbers) or _halfway(told, numbers, last)
        self.sides = first, last
        wanted = ((a, first), (b, last))
        gone = [(one, found) for one, found in wanted if one is not None and one != found]
        self._show_since(first, numbers, again, gone, told)
        with Tag("section", classes="panel whole", aria_labelledby="beside-title", id="beside"):
            title = f"Version {named(first, again)} beside {named(last, again)}"
            Tag("h2", title, id="beside-title")
            show_told(compared(known[first], known[last], told))
        with Tag("section", classes="panel whole", aria_labelledby="weigh-title", id="weigh"):
            Tag("h2", "What they go by", id="weigh-title")
            Tag("p", "What the splits on each feature gain, as a share of all.", "about")
            show_told(importances(known[first], known[last]))
        with Tag("section", classes="panel whole", aria_labelledby="all-title", id="all"):
            Tag("h2", "All that are known", id="all-title")
            self._summary = Tag("p", "", "summary")
            self._table = DataTable()
        self._list(versions, told, view)

    def _show_since(
        self,
        first: int,
        numbers: Sequence[int],
        again: Mapping[int, int],
        gone: Sequence[tuple[int, int]],
        told: Sequence[Told],
    ) -> None:
        """Say how each class went since version `first`; `gone` are stood in for by the second."""
        last = self._beside
        span = f"Since version {named(first, again)}"
        if last is not None:
            span = f"From version {named(first, again)} to {named(last, again)}"
        with Tag("section", classes="panel whole", aria_labelledby="since-title", id="since"):
            Tag("h2", span, id="since-title")
            self._choose(numbers, first, last)
            for wanted, found in gone:
                said = f"Nothing is kept of version {wanted}; {found} is the nearest."
                Tag("p", said, "summary")
            show_told(since(told, first, self._pipeline, last))
            Tag("p", _ABOUT, "about")

    @staticmethod
    def stamp(view: View) -> Any:
        """Return what differs wherever other versions are known than before."""
        learner = view.document("learner")
        return learner.get("version"), tuple(_kept(view))

    def is_old(self, view: View) -> bool:
        """Whether there are others than those shown."""
        return bool(self._menus) and self.stamp(view) != self._shown

    def update(self, versions: Sequence[Status], told: Sequence[Told], view: View) -> None:
        """Show what is known by now; what was chosen, and is compared, stays."""
        self._shown = self.stamp(view)
        for number in sorted({int(one["version"]) for one in versions} - self._offered):
            self._offered.add(number)
            for menu in self._menus:
                # The second menu begins with what serves, whichever that is.
                with menu:
                    place = menu is self._menus[-1]
                    Tag("option", str(number), value=str(number)).move(target_index=int(place))
        self._list(versions, told, view)

    def _list(self, versions: Sequence[Status], told: Sequence[Told], view: View) -> None:
        again = rolled_back(view)
        known = as_copies(versions, again)
        table = listed(known, told, _kept(view), self._pipeline, again, self._beside)
        self._summary.text = table.summary
        self._table.show_table(table)

    def _choose(self, numbers: Sequence[int], first: int, last: int | None) -> None:
        """Have two menus; the second is the newest version's at the time, while none is chosen."""
        with Tag("form", classes="choose", action="/versions"):
            Tag("input", type="hidden", name="pipeline", value=self._pipeline)
            for name, title, chosen in (("a", "Since version", first), ("b", "up to", last)):
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


def as_copies(versions: Sequence[Status], again: Mapping[int, int]) -> list[Status]:
    """Return the versions, the copies among them having learned what they are copies of had.

    `again` has the number of the version that each is a copy of.
    """
    known: dict[int, Status] = {}
    for one in versions:
        number = int(one["version"])
        first = known.get(again.get(number, number))
        known[number] = one if first is None else {**one, "labels": first["labels"]}
    return list(known.values())


def _nearest(wanted: int | None, numbers: Sequence[int]) -> int | None:
    """Return the number nearest to the one that is wanted, the earlier of two; None: none is.

    >>> _nearest(90, [4, 89, 91])
    89
    """
    return None if wanted is None else min(numbers, key=lambda n: abs(n - wanted))


def _halfway(told: Sequence[Told], numbers: Sequence[int], last: int) -> int:
    """Return the version since which half of what is told up to `last` came, of those before."""
    before = [n for n in numbers if n < last] or [last]
    told = [one for one in told if one.version <= last]
    middle = told[len(told) // 2].version if told else before[-1]
    return min(before, key=lambda n: abs(n - middle))


def compared(a: Status, b: Status, told: Sequence[Told]) -> Table:
    """Return what two versions were made of, and how often each was right while it served."""
    columns = [
        Column("Figure", "words"),
        *(Column(f"Version {one['version']}") for one in (a, b)),
        Column("Change"),
    ]
    rows: list[list[str | Cell]] = [
        ["Served from", *(clock(one.get("began")) for one in (a, b)), ""]
    ]
    for title, key in (
        ("Labels learned", "labels"),
        ("Trees", "trees"),
        ("Rounds", "rounds"),
        ("Records predicted", "predicted"),
    ):
        was, now = a.get(key), b.get(key)
        rows.append([title, amount(was), amount(now), _more(was, now)])
    then, later = (_predicted_by(told, one) for one in (a, b))
    whole, classes = Change("Accuracy", right(then), right(later)), changes(then, later)
    for title, one in (("Accuracy", whole), *((f"Recall of {one.name}", one) for one in classes)):
        rows.append([title, shown(one.was), shown(one.now), cell(one)])
    when = f"from version {a['version']} to {b['version']}"
    of = (
        "Each is judged by what it predicted itself, of which "
        f"{plural(len(then), 'label')} and {len(later):,} tell."
    )
    summary = f"{worse(classes, when, whole)} {of}" if classes else of
    return Table("Two versions side by side", columns, rows, summary)


def _predicted_by(told: Sequence[Told], version: Status) -> list[Told]:
    return [one for one in told if one.version == version["version"]]


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
    told: Sequence[Told],
    kept: Sequence[int],
    pipeline: str,
    again: Mapping[int, int] = MappingProxyType({}),
    beside: int | None = None,
) -> Table:
    """Return the versions, the newest first; those that are `kept` can serve again.

    `again` has the number of the version that each is a copy of, which was rolled back to. Each
    leads to itself and the one `beside`, the newest where that is None.
    """
    columns = [
        Column("Version", "words"),
        Column("Served from", "words"),
        Column("Labels"),
        Column("Trees"),
        Column("Right while it served"),
        Column("Kept", "words"),
    ]
    other = versions[-1]["version"] if beside is None else beside
    by: dict[int, list[Told]] = {}
    for record in told:
        by.setdefault(record.version, []).append(record)
    rows: list[list[str | Cell]] = [
        [
            Cell(
                named(int(one["version"]), again),
                link=page_of("/versions", pipeline, a=one["version"], b=other),
            ),
            clock(one.get("began")),
            amount(one.get("labels")),
            amount(one.get("trees")),
            shown(right(by.get(one["version"], ()))),
            "can serve again" if one["version"] in kept else "no",
        ]
        for one in reversed(versions)
    ]
    summary = f"{len(kept)} are kept whole and can serve again."
    if len(kept) > OFFERED + 1:
        summary += (
            f" An operator finds buttons above to roll back to the newest {OFFERED} that do not "
            "serve, and to any other once it is compared, which its number here leads to."
        )
    return Table("Versions", columns, rows, summary)
