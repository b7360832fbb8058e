"""Since which version classes are compared unless one is named, and which got worse since then."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

from streamboost.pipelines.service.pages.causes.chance import fell_from
from streamboost.pipelines.service.pages.causes.recalls import (
    Change,
    around,
    cell,
    changes,
    shown,
    worse,
)
from streamboost.pipelines.service.pages.tables import Cell, Column, Table
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.status.reader import Told
from streamboost.pipelines.wording import NOTHING, clock, plural

__all__ = ["Worse", "default_version", "got_worse", "since"]


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
