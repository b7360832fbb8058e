"""Which features shifted and since when, first those whose shift matters most.

What matters is how far a feature moved times its importance: a shift of what the committee does
not go by changes no prediction of its.
"""

from collections.abc import Mapping
from typing import Any

from streamboost.pipelines.service.pages.view import View
from streamboost.pipelines.status.feature_drift import RECORDS, SHIFTED
from streamboost.pipelines.wording import clock, percent, plural

__all__ = [
    "NAMED",
    "ever_shifted",
    "farthest",
    "in_order",
    "index_text",
    "shifted",
    "shifted_in_words",
    "start_of",
    "tells",
]

NAMED = 5
"""Features named in a sentence."""

LITTLE = 0.05
"""Importance below which a feature matters little, or half of an equal share where that is less."""


def shifted(view: View) -> list[str]:
    """Return the features that are shifted, the one that matters most first.

    Until there are `RECORDS` in a run it is as an earlier one left it: fewer move by chance.
    """
    is_told = tells(view)

    def is_shifted(one: Mapping[str, Any]) -> bool:
        known = is_told and (one.get("psi") or 0.0) >= SHIFTED
        return bool(one.get("shifted", known))

    return [str(one["name"]) for one in in_order(view, "psi") if is_shifted(one)]


def tells(view: View) -> bool:
    """Whether enough records have come in this run to tell which features are shifted."""
    return bool(view.document("features").get("records", RECORDS) >= RECORDS)


def shifted_in_words(view: View) -> str:
    """Say which features are `shifted`, at least one, and of which that matters little."""
    names = shifted(view)
    little = [name for name in names if _matters_little(view, name)]
    telling = [name for name in names if name not in little]
    if not telling:
        if len(little) == 1:
            return f"{little[0]} has shifted, which matters little to the committee"
        return f"{len(little)} features have shifted, which matter little to the committee"
    others = plural(len(telling) - 1, "other feature")
    said = f"{telling[0]} and {others} have shifted" if telling[1:] else f"{telling[0]} has shifted"
    if len(little) == 1:
        said += f"; so has {little[0]}, which matters little to the committee"
    elif little:
        said += f"; so have {len(little)} others, which matter little to the committee"
    return said


def _matters_little(view: View, name: str) -> bool:
    shares: Mapping[str, float] = view.document("importances")
    n = len(view.document("features").get("features") or ())
    return bool(shares) and shares.get(name, 0.0) < min(LITTLE, 0.5 / max(n, 1))


def in_order(view: View, key: str) -> list[Mapping[str, Any]]:
    """Return the features by an index times their importance.

    Those that hardly moved stand by their names, as who is before whom of them is chance.
    """
    shares: Mapping[str, float] = view.document("importances")

    def place(one: Mapping[str, Any]) -> tuple[float, float, str]:
        index, name = one.get(key) or 0.0, str(one["name"])
        moved = index if index >= SHIFTED / 2 else 0.0
        return -moved * (shares.get(name, 0.0) if shares else 1.0), -moved, name

    return sorted(view.document("features").get("features") or (), key=place)


def index_text(index: float) -> str:
    """Return an index with two digits, or as many more as show on which side of a limit it is.

    >>> index_text(0.2), index_text(0.1996), index_text(0.0999)
    ('0.20', '0.1996', '0.0999')
    """
    for digits in range(2, 6):
        text = f"{index:.{digits}f}"
        if all((float(text) >= limit) == (index >= limit) for limit in (SHIFTED, SHIFTED / 2)):
            break
    return text


def farthest(view: View) -> str:
    """Say which of the features that ever shifted matters most, since when it did, and the rest."""
    known = [one for one in in_order(view, "peak") if one.get("peak") is not None]
    if not known:
        return "How far features moved is told once enough records have come to compare them."
    ever = [one for one in known if one.get("began")]
    if not ever:
        most = max(known, key=lambda one: float(one["peak"]))
        peak = f"PSI {index_text(most['peak'])} at {clock(most['peaked'])}"
        return (
            f"No feature has ever counted as shifted ({SHIFTED} or more): since the start "
            f"{most['name']} has moved most, {peak}."
        )
    first, *others = ever
    matters = "moved most"
    if view.document("importances"):
        matters = "matters most by its shift times its importance"
    which = "is the one feature that ever shifted" if not others else matters
    of = f"Of the {len(others) + 1} features that ever shifted, " * bool(others)
    now = "" if first.get("psi") is None else f", and is {index_text(first['psi'])} now"
    said = (
        f"{of}{first['name']} {which}{_weight(view, first)}: its shift began "
        f"{start_of(view, first)}. Its PSI was {index_text(first['peak'])} at most, at "
        f"{clock(first['peaked'])}{now}."
    )
    rest = [f"{one['name']} {start_of(view, one)}{_weight(view, one)}" for one in others[:NAMED]]
    if len(others) > NAMED:
        rest.append(f"{len(others) - NAMED} more")
    return f"{said} The others' began: {'; '.join(rest)}." if rest else said


def ever_shifted(view: View, name: str) -> Mapping[str, Any] | None:
    """Return what is known of a feature that ever counted as shifted; None: it never did."""
    found = view.document("features").get("features") or ()
    return next((one for one in found if one["name"] == name and one.get("began")), None)


def start_of(view: View, one: Mapping[str, Any]) -> str:
    """Say when the shift of a feature that once shifted began, or by when it counted."""
    if not one.get("started"):
        return f"by {clock(one['began'])}"
    records, time = one["started"]
    if view.document("workers"):  # the learner has but the records that were asked about
        return f"at about {clock(time)}"
    return f"after about {records:,} records, at {clock(time)}"


def _weight(view: View, one: Mapping[str, Any]) -> str:
    """Say how far a feature moved, and how much the committee goes by it."""
    shares: Mapping[str, float] = view.document("importances")
    if not shares:
        return ""
    little = ", it matters little" * _matters_little(view, one["name"])
    share = percent(shares.get(one["name"], 0.0))
    return f" (PSI {index_text(one['peak'])} at most, importance {share}{little})"
