"""How often some versions recognised each class and others did, and whether that is chance.

A record counts by its chance of being asked about, so that those that were asked, which are the
hard ones, speak for all. Predictions before there was a committee count for none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from streamboost.pipelines.service.pages.causes.chance import CHANCE, Share
from streamboost.pipelines.service.pages.tables import Cell
from streamboost.pipelines.status.formatting import NOTHING, percent, plural
from streamboost.pipelines.status.reader import Told

__all__ = [
    "Change",
    "Right",
    "around",
    "cell",
    "changes",
    "in_order",
    "right",
    "shown",
    "worse",
]

NAMED = 10
"""Classes named in a sentence."""

FEWEST = 5
"""Labels from which on a share is worth more than what it is of, and a change is judged."""

WIDE = 0.5
"""The width of the interval of a class's change, above which nothing is said of it."""


@dataclass(frozen=True, slots=True)
class Right:
    """How many labelled records tell, how many of them were mistaken, and what that says of all.

    They are `worth` as many that stand for as many records each, whatever was mistaken (Kish 1965).
    """

    told: int
    wrong: int
    share: Share
    worth: int

    @property
    def counted(self) -> str:
        """How many of those that tell were right."""
        return f"{self.told - self.wrong:,} of {self.told:,}"

    @property
    def text(self) -> str:
        """The share that was right, with its 95 % interval, and of how many records; or of few."""
        if self.told < FEWEST:
            return self.counted
        low, high = self.share.interval()
        of = f"of {self.told:,}" + f" worth {self.worth:,}" * (self.worth < self.told)
        return f"{percent(self.share.value)} ({100 * low:.0f} to {100 * high:.0f}), {of}"


def right(found: Sequence[Told]) -> Right | None:
    """Return how many of these were right; None: there are none.

    The variance is that of a ratio of sums (Särndal and others 1992, 5.6), with one record that is
    right and one mistaken beside those found: few that are all right leave it open, too.
    """
    if not found:
        return None
    n, weights = len(found), [1.0 / one.chance for one in found]
    total = sum(weights)
    mean = total / n
    hits = [float(one.said == one.truth) for one in found]
    value = min(sum(weight * hit for weight, hit in zip(weights, hits, strict=True)) / total, 1.0)
    weights, hits = [*weights, mean, mean], [*hits, 1.0, 0.0]
    share = (value * total + mean) / (total + 2 * mean)
    squares = sum((weight * (hit - share)) ** 2 for weight, hit in zip(weights, hits, strict=True))
    alike = share * (1 - share) * sum(weights) ** 2 / squares
    least = total * total / sum(weight * weight for weight in weights[:n])
    share_of_all = Share(value, min(max(alike, least), n))
    return Right(n, n - int(sum(hits[:n])), share_of_all, round(least))


def around(found: Sequence[Told], version: int) -> tuple[Sequence[Told], Sequence[Told]]:
    """Return the records predicted by `version` or a later one, and as many of those before.

    `found` is in the order in which they came.
    """
    later = [one for one in found if one.version >= version]
    earlier = [one for one in found if one.version < version]
    return earlier[max(len(earlier) - len(later), 0) :], later


@dataclass(frozen=True)
class Change:
    """How often a class was recognised, then and now, where so many classes are `among`."""

    name: str
    was: Right | None
    now: Right | None
    among: int = 1

    @cached_property
    def ends(self) -> tuple[float, float] | None:
        """The least and the most that the share may have changed; None: nothing tells."""
        if self.was is None or self.now is None:
            return None
        return self.now.share.less(self.was.share, CHANCE / self.among)

    @property
    def fell(self) -> bool:
        """Whether it fell by more than chance makes one of so many classes fall."""
        return self.ends is not None and not self.is_of_few and self.ends[1] < 0.0

    @property
    def is_of_few(self) -> bool:
        """Whether the labels, then or now, are worth too few for their interval to be trusted."""
        return any(one is None or one.worth < FEWEST for one in (self.was, self.now))

    @property
    def is_open(self) -> bool:
        """Whether it cannot be said that it did not fall: of too few labels, or for chance."""
        if self.ends is None or self.is_of_few:
            return True
        return not self.fell and self.ends[1] - self.ends[0] > WIDE

    @property
    def points(self) -> float:
        """The change, in points of a hundred; 0 where nothing tells."""
        if self.was is None or self.now is None:
            return 0.0
        return 100 * (self.now.share.value - self.was.share.value)

    @property
    def text(self) -> str:
        """The change with how far chance may have it, in points."""
        if self.ends is None:
            return NOTHING
        if self.is_open:
            return "too few labels" if self.is_of_few else "open"
        points, low, high = (round(one) for one in (self.points, *(100 * end for end in self.ends)))
        return f"{points:+d} points ({low:+d} to {high:+d})"


def changes(was: Sequence[Told], now: Sequence[Told]) -> list[Change]:
    """Return how each class changed: by how far they fell, of those first that surely did.

    Last are those that are open.
    """
    then, since = _by_class(was), _by_class(now)
    among = max(len(then.keys() & since.keys()), 1)
    found = [
        Change(name, right(then.get(name, ())), right(since.get(name, ())), among)
        for name in sorted({**then, **since}, key=in_order)
    ]
    return sorted(
        found, key=lambda one: (one.is_open, not one.fell, 0 if one.is_open else one.points)
    )


def _by_class(found: Sequence[Told]) -> Mapping[str, Sequence[Told]]:
    classes: dict[str, list[Told]] = {}
    for one in found:
        classes.setdefault(one.truth, []).append(one)
    return classes


def worse(found: Sequence[Change], when: str, whole: Change | None = None) -> str:
    """Say which classes got worse beyond chance, that none did, or that nothing can be said.

    Where none did, but all of them together, which is the `whole`, that is said before.
    """
    fell = [one for one in found if one.fell]
    if fell and (first := fell[0]).was and first.now:
        was, now = first.was, first.now
        more = "".join(f" So did {one.name} ({one.text})." for one in fell[1:])
        said = (
            f"Class {first.name} got worse {when}, by more than chance: of its records "
            f"{percent(was.share.value)} were recognised before and {percent(now.share.value)} are "
            f"now, by {plural(was.told, 'label')} and {now.told:,}.{more}"
        )
    elif whole is not None and whole.fell:
        said = f"All classes together got worse {when}, by more than chance, but none by itself."
    elif all(one.is_of_few for one in found):
        return f"Too few labels tell of any class to say whether one got worse {when}."
    elif all(one.is_open for one in found):
        return f"It is open whether a class got worse {when}."
    else:
        said = f"No class got worse {when} by more than chance."
        if (most := found[0]).points < 0:
            said += f" {most.name} fell most, by what chance may explain: {most.text}."
    few = _named(one for one in found if one.is_of_few)
    wide = _named(one for one in found if one.is_open and not one.is_of_few)
    said += f" Too few labels tell of {few}." * bool(few)
    return said + f" It is open for {wide}." * bool(wide)


def _named(found: Iterable[Change]) -> str:
    """Return the names of classes for a sentence, of many the first; empty: there are none."""
    names = sorted((one.name for one in found), key=in_order)
    others = f" and {len(names) - NAMED:,} more" * (len(names) > NAMED)
    return ", ".join(names[:NAMED]) + others


def shown(one: Right | None) -> str:
    """Return the share that was right as a text."""
    return NOTHING if one is None else one.text


def cell(one: Change) -> str | Cell:
    """Return a change as a cell, marked where it fell."""
    if not one.fell:
        return one.text
    return Cell(one.text, shade=0.6, colour="bad", note="got worse: ")


def in_order(name: str) -> tuple[bool, float, str]:
    """Return by what names are ordered: numbers by their size, before all others.

    >>> sorted(["10", "b", "9", "a"], key=in_order)
    ['9', '10', 'a', 'b']
    """
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name
