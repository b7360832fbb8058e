"""The committees that served: two side by side, and all that are known."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from streamboost.pipelines.service.pages.causes.recalls import FEWEST, WIDE
from streamboost.pipelines.service.pages.causes.versions.since import default_version, since
from streamboost.pipelines.service.pages.causes.versions.tables import (
    as_copies,
    compared,
    importances,
    listed,
)
from streamboost.pipelines.service.pages.tables import named, rolled_back
from streamboost.pipelines.service.pages.view import View
from streamboost.pipelines.service.pages.widgets import DataTable, Tag, show_told
from streamboost.pipelines.status.reader import Status, Told
from streamboost.pipelines.wording import plural

__all__ = ["Versions"]

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
