"""How the recall of each class changed from one version to another, and whether that is chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from statistics import NormalDist
from typing import Any

from streamboost.pipelines.service.pages.tables import Cell
from streamboost.pipelines.status.reader import Status
from streamboost.pipelines.wording import NOTHING, plural

__all__ = ["Change", "in_order", "told_of", "worse"]

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Change:
    """How the recall of a class changed; `told` is how many labels tell of it, at least."""

    name: str
    was: Mapping[str, Any] | None
    now: Mapping[str, Any] | None
    told: int | None

    @property
    def points(self) -> float | None:
        """The change in points of a hundred."""
        if self.was is None or self.now is None:
            return None
        return 100 * (float(self.now["value"]) - float(self.was["value"]))

    def cell(self, most: float) -> Cell:
        """Return it as a cell whose bar is full at `most` points."""
        if self.points is None:
            return Cell(NOTHING)
        colour = "bad" if self.points < 0 else "good"
        return Cell(self.text, bar=abs(self.points) / (most or 1.0), colour=colour)

    @property
    def text(self) -> str:
        """The change, and of how many labels."""
        of = "" if self.told is None else f", of {plural(self.told, 'label')}"
        return f"{self.points:+.1f} points{of}"

    def is_beyond_chance(self, among: int) -> bool:
        """Whether it is more than chance makes the largest of so many changes."""
        if self.points is None or self.was is None or self.now is None:
            return False
        wider = _NORMAL.inv_cdf(1 - 0.025 / among) / _NORMAL.inv_cdf(0.975)
        enough = self.told is None or self.told > 1
        return enough and abs(self.points) > 100 * wider * hypot(
            _margin(self.was), _margin(self.now)
        )


def worse(changes: Sequence[Change]) -> str:
    """Say which class got worse most, beyond chance; or that none did."""
    known = [(one.points, one) for one in changes if one.points is not None]
    fell = sorted((one for one in known if one[0] < 0), key=lambda one: one[0])
    beyond = [one for _, one in fell if one.is_beyond_chance(len(known))]
    if beyond:
        return f"Class {beyond[0].name} got worse most: recall {beyond[0].text}. "
    if fell:
        _, one = fell[0]
        return (
            "No class got worse by more than chance: the most is the recall of class "
            f"{one.name}, {one.text}. "
        )
    return "No class got worse. " if known else ""


def told_of(a: Status, b: Status, name: str) -> int | None:
    """Return how many labels tell of a class, in the version of which fewer do."""
    found = [one["told"].get(name, 0) for one in (a, b) if one.get("told") is not None]
    return min(found) if len(found) == 2 else None


def in_order(name: str) -> tuple[bool, float, str]:
    """Return by what names are ordered: numbers by their size, before all others.

    >>> sorted(["10", "b", "9", "a"], key=in_order)
    ['9', '10', 'a', 'b']
    """
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name


def _margin(one: Mapping[str, Any]) -> float:
    return (float(one["high"]) - float(one["low"])) / 2
