"""Two committees side by side, what they go by, and all that are known, as tables."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from streamboost.pipelines.service.pages.causes.recalls import (
    Change,
    Right,
    cell,
    changes,
    right,
    shown,
    worse,
)
from streamboost.pipelines.service.pages.causes.steering import OFFERED
from streamboost.pipelines.service.pages.tables import Cell, Column, Table, named
from streamboost.pipelines.service.pages.view import page_of
from streamboost.pipelines.status.reader import Status, Told
from streamboost.pipelines.wording import NOTHING, amount, clock, percent, plural

__all__ = ["as_copies", "compared", "importances", "listed"]

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
