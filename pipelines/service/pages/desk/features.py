"""The features of a record that somebody is to label, beside what is usual and what is typical."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.connectors.messages.labels import as_text
from streamboost.pipelines.service.labelling.queue import OpenRequest
from streamboost.pipelines.service.pages.desk.questions import is_long
from streamboost.pipelines.service.pages.tables import Cell, Column, Scale, Table
from streamboost.pipelines.wording import NOTHING, amount, is_number, shown

__all__ = ["features"]

WIDTH = 3.0
"""Standard deviations from the usual to either end of a scale."""

UNUSUAL = 2.0
"""The same from which on a value is called unusual."""

Values = Mapping[str, float | None]


def features(
    request: OpenRequest,
    usual: Sequence[Mapping[str, Any]],
    typical: Mapping[str, Any],
    *,
    blind: bool = False,
) -> Table:
    """Show the features in the order of the schema, each on a scale around the `usual`.

    Each of `usual` has a feature's `name`, `median`, `deviation`, and the quartiles `lower` and
    `upper`. `typical` is the document of that name: of the two likeliest classes it has marks on
    the scales, unless labelling is `blind`.
    """
    values = {
        name: value for name, value in (request.get("features") or {}).items() if not is_long(value)
    }
    spread = {str(one["name"]): one for one in usual if one.get("deviation")}
    marks = {} if blind else _likeliest(request, typical)
    columns = [Column("Feature", "words"), Column("Value")]
    if not any(is_number(value) and name in spread for name, value in values.items()):
        rows: list[list[str | Cell]] = [[name, shown(value)] for name, value in values.items()]
        return Table("Features, in the order of the schema", columns, rows, "")
    columns.append(Column("Against the usual"))
    rows = [
        [name, shown(value), _place(value, spread.get(name), name, marks)]
        for name, value in values.items()
    ]
    return Table("Features, in the order of the schema", columns, rows, _legend(list(marks)))


def _likeliest(request: OpenRequest, typical: Mapping[str, Any]) -> dict[str, Values]:
    """Return what is typical of the two likeliest classes of which something is."""
    chances = {name: p or 0.0 for name, p in (request.get("probabilities") or {}).items()}
    names, medians = typical.get("names") or [], typical.get("medians") or []
    known = {
        str(as_text(label)): dict(zip(names, row, strict=False))
        for label, row in zip(typical.get("classes") or [], medians, strict=False)
    }
    likely = sorted(chances, key=lambda name: -chances[name])[:2]
    return {name: known[name] for name in likely if name in known}


def _legend(classes: Sequence[str]) -> str:
    text = (
        "The middle is the usual value, and the band holds the middle half of the newest records."
    )
    signs = zip(("one line", "two lines"), classes, strict=False)
    told = " and ".join(f"{sign} {name}" for sign, name in signs)
    return f"{text} What is typical of a class: {told}." if told else text


def _place(
    value: Any, usual: Mapping[str, Any] | None, name: str, marks: Mapping[str, Values]
) -> Cell:
    """Return where a value lies between `WIDTH` deviations below the usual and above it."""
    middle = None if usual is None else usual.get("median")
    if usual is None or middle is None:
        return Cell(NOTHING)
    reach = WIDTH * float(usual["deviation"])

    def at(number: float) -> float:
        return min(max(0.5 + (number - float(middle)) / (2 * reach), 0.0), 1.0)

    typical = [found.get(name) for found in marks.values()]
    scale = Scale(
        at=at(value) if is_number(value) else None,
        low=at(usual["lower"]),
        high=at(usual["upper"]),
        marks=[None if found is None else at(found) for found in typical],
    )
    told = [
        f"typical of {label}: {amount(found)}"
        for label, found in zip(marks, typical, strict=True)
        if found is not None
    ]
    note = f"usual {amount(middle)}; {'; '.join(told)}" if told else f"usual {amount(middle)}"
    if not is_number(value):
        return Cell(NOTHING, scale=scale, note=note)
    far = (value - middle) / usual["deviation"]
    colour = "warn" if abs(far) > UNUSUAL else "series-1"
    return Cell(_departure(far), scale=scale, colour=colour, note=note)


def _departure(far: float) -> str:
    if abs(far) < 0.05:
        return "as usual"
    return f"{abs(far):.1f} sd {'above' if far > 0 else 'below'}"
