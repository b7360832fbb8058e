"""Compares model versions: against a baseline, two side by side, and all in a list."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from types import MappingProxyType
from typing import Any

from streamboost.pipelines.service.pages.causes.chance import fell_from
from streamboost.pipelines.service.pages.causes.recalls import (
    FEWEST,
    WIDE,
    Change,
    Right,
    around,
    cell,
    changes,
    right,
    shown,
    worse,
)
from streamboost.pipelines.service.pages.causes.steering import OFFERED
from streamboost.pipelines.service.pages.tables import Cell, Column, Table, named, rolled_back
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.service.pages.widgets import DataTable, Tag, show_told
from streamboost.pipelines.status.formatting import NOTHING, amount, clock, percent, plural
from streamboost.pipelines.status.reader import Status, Told

__all__ = [
    "Versions",
    "Worse",
    "as_copies",
    "compared",
    "default_version",
    "got_worse",
    "importances",
    "listed",
    "since",
]


@dataclass(frozen=True, slots=True)
class Worse:
    """The classes that got worse since a version, by more than chance, the worst first."""

    version: int
    names: Sequence[str]


def default_version(told: Sequence[Told], until: int | None = None) -> int | None:
    """Return the version to compare since, of what is told up to `until`; None: nothing is.

    From a quarter to a half of that came before it; where one version predicted too much for that,
    the smaller side has as much as can be. It is a round number where many versions are told of: it
    stays for a while as labels come.
    """
    versions = sorted(one.version for one in told if until is None or one.version <= until)
    n = len(versions)
    if not n:
        return None
    quarter, middle = versions[n // 4], versions[n // 2]
    if quarter < middle:
        step = _round((middle - quarter) / 2)
        return middle // step * step
    before, after = bisect_left(versions, middle), bisect_right(versions, middle)
    return versions[after] if n - after > before else middle


def _round(most: float) -> int:
    """Return the greatest of 1, 2, 5, 10, 20 and so on that is not more than `most`; at least 1.

    >>> [_round(most) for most in (0, 1.9, 2, 7, 19, 450)]
    [1, 1, 2, 5, 10, 200]
    """
    power: int = 10 ** floor(log10(max(most, 1)))
    return max(n * power for n in (1, 2, 5) if n == 1 or n * power <= most)


def got_worse(view: View) -> Worse | None:
    """Return which classes got worse, as `since` has it of the default version; None: none did."""
    evidence = view.evidence

    def judge() -> Worse | None:
        version = default_version(evidence.told)
        found = [] if version is None else changes(*around(evidence.told, version))
        names = [one.name for one in found if one.fell]
        return Worse(version, names) if version is not None and names else None

    return evidence.found.once(got_worse, judge)


def since(told: Sequence[Told], version: int, pipeline: str, until: int | None = None) -> Table:
    """Return how often each class was recognised since a version, and in as many labels before.

    `until` is the last version that counts; None: the newest.
    """
    then, now = around([one for one in told if until is None or one.version <= until], version)
    when = f"since version {version}" if until is None else f"from version {version} to {until}"
    columns = [
        Column("Class", "words"),
        Column("Before"),
        Column("Since" if until is None else "Then"),
        Column("Change"),
        Column("Mistaken since" if until is None else "Mistaken then"),
    ]
    found = changes(then, now)
    rows: list[list[str | Cell]] = [
        [
            one.name,
            shown(one.was),
            shown(one.now),
            cell(one),
            _mistaken(one, version, until, pipeline),
        ]
        for one in found
    ]
    caption = f"Each class {when}"
    by = f"version {version} or a later one" if until is None else f"versions {version} to {until}"
    if not rows:
        whose = f"of what {by} predicted" if told else "of any committee yet"
        return Table(caption, columns, [], f"No label that counts here tells {whose}.")
    of = (
        f"Compared are {plural(len(now), 'label')} of records that {by} predicted, and the "
        f"{len(then):,} before."
    )
    summary = f"{worse(found, when)}{_onset(found[0], [*then, *now])} {of}"
    return Table(caption, columns, rows, summary)


def _onset(most: Change, told: Sequence[Told]) -> str:
    """Say since when the class that fell most was mistaken more often; empty: none fell."""
    own = [one for one in told if one.truth == most.name]
    place = fell_from([one.said == one.truth for one in own]) if most.fell else None
    if place is None:
        return ""
    first = own[place]
    at = f" from about {clock(first.arrived)} on," if first.arrived else ""
    return f" {most.name} most likely got worse{at} with version {first.version}."


def _mistaken(one: Change, version: int, until: int | None, pipeline: str) -> str | Cell:
    """Return how many records of a class were mistaken since a version, leading to them."""
    if one.now is None:
        return NOTHING
    text = f"{one.now.wrong:,} of {one.now.told:,}"
    if not one.now.wrong:
        return text
    among = {"true": one.name, "since": version, "until": until, "wrong": "true"}
    link = page_of("/records", pipeline, **among)
    return Cell(text, link=link)


FEATURES = 15
"""Features whose importance is compared."""


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
        sides = [_judged(side, one) for side in (one.was, one.now)]
        rows.append([title, *sides, cell(one)])
    first, second = a["version"], b["version"]
    said = worse(classes, f"from version {first} to {second}", whole)
    judged = (whole, *classes)
    if all(one.is_open for one in judged):
        few = all(one.is_of_few for one in judged)
        begins = "Too few labels tell" if few else "It is open"
        said = f"{begins} whether version {second} is better or worse than {first}."
    of = (
        "Each is judged by what it predicted itself, of which "
        f"{plural(len(then), 'label')} and {len(later):,} tell."
    )
    return Table("Two versions side by side", columns, rows, f"{said} {of}")


def _judged(side: Right | None, change: Change) -> str:
    """Return the share that was right, or where too few labels tell how many of these were."""
    return side.counted if side is not None and change.is_of_few else shown(side)


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
    words = Column("Version", "words"), Column("Served from", "words")
    figures = (Column(text) for text in ("Labels", "Trees", "Right while it served"))
    columns = [*words, *figures, Column("Kept", "words")]
    other = versions[-1]["version"] if beside is None else beside
    by: dict[int, list[Told]] = {}
    for record in told:
        by.setdefault(record.version, []).append(record)
    rows: list[list[str | Cell]] = []
    for one in reversed(versions):
        number = int(one["version"])
        link = page_of("/versions", pipeline, a=number, b=other)
        made = (amount(one.get(key)) for key in ("labels", "trees"))
        share = shown(right(by.get(number, ())))
        serves = "can serve again" if number in kept else "no"
        name = Cell(named(number, again), link=link)
        rows.append([name, clock(one.get("began")), *made, share, serves])
    summary = f"{len(kept)} are kept whole and can serve again."
    if len(kept) > OFFERED + 1:
        summary += (
            f" An operator finds buttons above to roll back to the newest {OFFERED} that do not "
            "serve, and to any other once it is compared, which its number here leads to."
        )
    return Table("Versions", columns, rows, summary)


NAMED = 10
"""Versions named in a sentence."""

_ABOUT = (
    "Of the records of each class, the share that was predicted as it on arrival (its recall), "
    f"with its 95 % interval, and of how many labels; of fewer than {FEWEST}, how many. Only "
    "labels that were asked for count, each by its chance of being asked for, so that they speak "
    "for all records; what was predicted before the first committee does not count, nor do records "
    "whose label is disputed, of which it is open what is right. Where some stand for many more "
    "records than others, they tell less: 82 worth 19 tell as much as 19 that stand for as many "
    "each. A change has in brackets what chance leaves possible, for all classes together; it is "
    f"open where that spans more than {100 * WIDE:.0f} points, and none is judged of labels worth "
    f"fewer than {FEWEST}. Those that got worse come first, then the others by how far they fell, "
    "last those that are open or of which too few labels tell."
)


class Versions:
    """What changed since a version, two side by side, what they go by, and all that are known.

    Parameters
    ----------
    versions : those that are known, the oldest first
    told : what the labels tell of them, by when their records came
    view : how things stand
    a, b : those that are chosen, in either order, within those of which something is kept. Where
        `b` is None, it is the newest, and where `a` is, the default version

    Attributes
    ----------
    sides : the numbers of the two side by side: of those chosen, or of the nearest committees that
        are known; none where no version is
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
        self._offered: set[int] = set()
        self.sides: tuple[int, ...] = ()
        if not versions:
            with Tag("section", classes="panel"):
                Tag("p", "No committee has served yet: load this page again.", "summary empty")
            return
        if a is not None and b is not None and b < a:
            a, b = b, a
        again = rolled_back(view)
        known = {int(one["version"]): one for one in as_copies(versions, again)}
        self._offered = known.keys() | {one.version for one in told}
        self._beside = self._within(b)
        right = _nearest(max(known) if self._beside is None else self._beside, known)
        before = _nearest(right, [n for n in known if n < right] or known)
        first = default_version(told, self._beside) if a is None else self._within(a)
        first = before if first is None else first
        left = _nearest(first, known)
        if a is None and left == right:
            left = before
        self.sides = left, right
        self._show_since(first, a, b, again, told)
        self._show_sides(first, known, again, told)
        with Tag("section", classes="panel whole", aria_labelledby="all-title", id="all"):
            Tag("h2", "All that are known", id="all-title")
            self._summary = Tag("p", "", "summary")
            self._table = DataTable()
        self._list(versions, told, view)

    def _within(self, wanted: int | None) -> int | None:
        """Return the version that is wanted, or the oldest or newest there is anything of."""
        return None if wanted is None else sorted((*_ends(self._offered), wanted))[1]

    def _show_since(
        self,
        first: int,
        a: int | None,
        b: int | None,
        again: Mapping[int, int],
        told: Sequence[Told],
    ) -> None:
        """Say how each class went since version `first`; `a` and `b` are what was asked for."""
        last = self._beside
        span = f"Since version {named(first, again)}"
        if last is not None:
            span = f"From version {named(first, again)} to {named(last, again)}"
        with Tag("section", classes="panel whole", aria_labelledby="since-title", id="since"):
            Tag("h2", span, id="since-title")
            self._choose(first, last)
            ends = {number for number in (first, last) if number is not None}
            about = _chosen(first, a, last, told), _missing(self._offered | ends)
            for text in filter(None, about):
                Tag("p", text, "about")
            for wanted, found in {a: first, b: last}.items():
                if wanted is not None and wanted not in self._offered:
                    nearest = "" if wanted == found else f"; {found} is the nearest"
                    said = f"Nothing that counts here is kept of version {wanted}{nearest}."
                    Tag("p", said, "summary")
            show_told(since(told, first, self._pipeline, last))
            Tag("p", _ABOUT, "about")

    def _show_sides(
        self,
        first: int,
        known: Mapping[int, Status],
        again: Mapping[int, int],
        told: Sequence[Told],
    ) -> None:
        """Have the two beside each other, the left one for version `first`."""
        left, right = self.sides
        with Tag("section", classes="panel whole", aria_labelledby="beside-title", id="beside"):
            if left == right:
                Tag("h2", "Side by side", id="beside-title")
                said = f"Nothing stands beside version {right}: for both it is the nearest known."
                Tag("p", said, "summary empty")
                return
            title = f"Version {named(left, again)} beside {named(right, again)}"
            Tag("h2", title, id="beside-title")
            for wanted, found in ((first, left), (self._beside, right)):
                if wanted is not None and wanted not in known:
                    said = f"Of version {wanted} at most predictions are kept: {found} stands here."
                    Tag("p", said, "summary")
            show_told(compared(known[left], known[right], told))
        with Tag("section", classes="panel whole", aria_labelledby="weigh-title", id="weigh"):
            Tag("h2", "What they go by", id="weigh-title")
            Tag("p", "What the splits on each feature gain, as a share of all.", "about")
            show_told(importances(known[left], known[right]))

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

    def _choose(self, first: int, last: int | None) -> None:
        """Have two menus; the second is the newest version's at the time, while none is chosen."""
        with Tag("form", classes="choose", action="/versions"):
            Tag("input", type="hidden", name="pipeline", value=self._pipeline)
            for name, title, chosen in (("a", "Since version", first), ("b", "up to", last)):
                Tag("label", title, for_=f"version-{name}")
                with Tag("select", id=f"version-{name}", name=name) as menu:
                    if name == "b":
                        Tag("option", "the newest", value="")
                    for number in sorted(self._offered | {chosen or first}, reverse=True):
                        is_chosen: dict[str, Any] = {"selected": True} if number == chosen else {}
                        Tag("option", str(number), value=str(number), **is_chosen)
                self._menus.append(menu)
            Tag("button", "Compare")


def _kept(view: View) -> list[int]:
    return [int(one["version"]) for one in view.document("learner").get("versions") or ()]


def _ends(numbers: Collection[int]) -> tuple[int, int]:
    return min(numbers), max(numbers)


def _nearest(wanted: int, numbers: Iterable[int]) -> int:
    """Return the number nearest to the one that is wanted, the earlier of two.

    >>> _nearest(90, [91, 4, 89])
    89
    """
    return min(sorted(numbers), key=lambda n: abs(n - wanted))


def _chosen(first: int, a: int | None, last: int | None, told: Sequence[Told]) -> str:
    """Say why the comparison begins with version `first`, where nobody asked for it."""
    versions = [one.version for one in told if last is None or one.version <= last]
    if a is not None or not versions:
        return ""
    since = sum(version >= first for version in versions)
    return (
        f"No version was chosen: {first} is one since which {since:,} of the "
        f"{plural(len(versions), 'label')} came that count here. It stays for a while, and moves "
        'on as more come; "Compare" keeps it in the page\'s address.'
    )


def _missing(offered: Collection[int]) -> str:
    """Say which versions the menus lack."""
    low, high = _ends(offered)
    gone = [n for n in range(low, high) if n not in offered]
    if not gone:
        return ""
    named = ", ".join(map(str, gone[:NAMED])) + f" and {len(gone) - NAMED:,} more" * (
        len(gone) > NAMED
    )
    return f"Not offered, as nothing that counts here is kept of them: {named}."
