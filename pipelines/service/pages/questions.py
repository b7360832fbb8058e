"""What a person is shown of a request, in words, before they answer it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from streamboost.active.utilities import UTILITIES
from streamboost.connectors.messages.labels import as_text, nearest, tidied
from streamboost.errors import DataError
from streamboost.pipelines.service.labelling.queue import OpenRequest
from streamboost.pipelines.service.pages.tables import Cell, Column, Table
from streamboost.pipelines.wording import NOTHING, amount, clock, percent, visible

__all__ = [
    "Choice",
    "Doubt",
    "FieldKind",
    "choices",
    "doubt_of",
    "features",
    "is_long",
    "kind_of",
    "label_of",
    "until",
    "why",
]

KEYS = 9
"""Classes that a digit stands for."""

UNUSUAL = 4.0
"""Standard deviations that fill a bar."""

FieldKind = Literal["image", "link", "text", "value"]


LONG = 40
"""Characters from which on a text stands above the features."""

_NUMBERS = 8
"""Numbers of a list that are shown one by one."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A class to choose.

    `key` is the digit that stands for it, `share` what the committee gives it, `part` the same from
    0 to 1, `guess` whether it is the committee's.
    """

    label: str | int
    name: str
    key: str | None
    share: str | None
    part: float
    guess: bool


def choices(request: OpenRequest, known: Sequence[str | int]) -> list[Choice]:
    """Return the classes to choose from.

    Up to nine keep their places, so that a key means the same for every record. Of more, the nine
    likeliest come first, and have the keys.

    >>> request = {"label": "b", "probabilities": {"a": 0.25, "b": 0.75}}
    >>> [(one.key, one.name, one.share, one.guess) for one in choices(request, ["a", "b", "c"])]
    [('1', 'a', '25.0 %', False), ('2', 'b', '75.0 %', True), ('3', 'c', None, False)]
    """
    probabilities = request.get("probabilities") or {}
    shares = {label: probabilities.get(str(label)) for label in known}
    order = sorted(known)
    if len(order) > KEYS:
        likeliest = sorted(order, key=lambda label: -(shares[label] or 0.0))[:KEYS]
        order = likeliest + [label for label in order if label not in likeliest]
    return [
        Choice(
            label=label,
            name=visible(str(label)),
            key=str(place) if place <= KEYS else None,
            share=None if shares[label] is None else percent(shares[label]),
            part=shares[label] or 0.0,
            guess=label == as_text(request.get("label")),
        )
        for place, label in enumerate(order, 1)
    ]


@dataclass(frozen=True, slots=True)
class Doubt:
    """A class that would be new, and the one it may be meant for: each as given and as shown."""

    label: str
    name: str
    meant: str | int
    near: str


ALIKE = 0.6
"""How alike, by `difflib`, a new class is to an old one that is asked about."""


def label_of(given: Mapping[str, Any], label_type: str | None) -> str | int:
    """Return the label that was chosen, as the schema has it; what it cannot read, it will refuse.

    Raises DataError where none was.

    >>> label_of({"action": "label", "label": "7"}, "integer")
    7
    """
    label = given.get("label")
    if given.get("action") != "label" or not isinstance(label, str | int):
        raise DataError("that is no answer: choose a class, skip the record, or say you are unsure")
    if isinstance(label, bool) or label_type == "boolean":
        return str(as_text(label))
    try:
        return int(label) if label_type == "integer" else label
    except ValueError:
        return label


def doubt_of(
    given: Mapping[str, Any], known: Sequence[str | int], label_type: str | None
) -> Doubt | None:
    """Return what to ask before a class that looks like another becomes one; None: nothing.

    >>> doubt_of({"action": "label", "label": "Gras"}, ["grass", "sky"], "string").near
    'grass'
    """
    given_label = given.get("label")
    if given.get("action") != "label" or given.get("sure") or not isinstance(given_label, str):
        return None
    label, fault = tidied(given_label)
    if fault or label in known or label_type not in (None, "string"):
        return None
    near = nearest(label, known, ALIKE)
    return None if near is None else Doubt(label, visible(label), near, visible(str(near)))


def why(request: OpenRequest, strategy: Mapping[str, Any]) -> str:
    """Say why the record was asked for.

    >>> why({"label": None}, {})
    'Asked before anything had been learned, when records are picked at random.'
    >>> why({"label": "a", "propensity": 0.05, "utility": 0.4}, {"utility": "margin"})
    'Picked at random: one record in 20 is, whatever the committee thinks, so that its accuracy can
    be measured fairly.'
    >>> chance = {"utility": "margin", "rule": "chance"}
    >>> why({"label": "a", "propensity": 0.25, "utility": 0.4}, chance)
    'Picked with a chance of 25.0 %, better than that of others the more its label would teach
    (utility 0.4).'
    """
    if request.get("label") is None:
        return "Asked before anything had been learned, when records are picked at random."
    propensity = float(request.get("propensity") or 0.0)
    if strategy.get("rule") == "chance" and strategy.get("utility") != "random":
        return (
            f"Picked with a chance of {percent(propensity)}, better than that of others the more "
            f"its label would teach ({_utility(request)})."
        )
    if propensity >= 1:
        utility = UTILITIES.get(str(strategy.get("utility")))
        reason = "Its label would teach the most"
        if utility is not None and utility.reason:
            reason = f"Of the newest records, one {utility.reason}"
        return f"{reason} ({_utility(request)})."
    if strategy.get("utility") == "random" or propensity * 3 < 1:
        return (
            f"Picked at random: one record in {round(1 / propensity) if propensity else NOTHING} "
            "is, whatever the committee thinks, so that its accuracy can be measured fairly."
        )
    return (
        f"A record this uncertain ({_utility(request)}) is asked for with a "
        f"chance of {percent(propensity)}."
    )


def _utility(request: OpenRequest) -> str:
    return f"utility {amount(request.get('utility'))}"


def until(request: OpenRequest) -> str:
    """Say when the request expires, empty where that is counted in records."""
    expires = request.get("expires")
    return f"Open until {clock(expires)}." if isinstance(expires, int | float) else ""


def features(request: OpenRequest, usual: Sequence[Mapping[str, Any]]) -> Table:
    """Show the features, those farthest from the `usual` first where that is known.

    Each of `usual` has a feature's `name`, `mean` and `deviation`, the standard deviation.
    """
    values = {
        name: value for name, value in (request.get("features") or {}).items() if not is_long(value)
    }
    spread = {str(one["name"]): one for one in usual if one.get("deviation")}
    departures = {
        name: (value - spread[name]["mean"]) / spread[name]["deviation"]
        for name, value in values.items()
        if _is_number(value) and name in spread and spread[name].get("mean") is not None
    }
    if not departures:
        columns = [Column("Feature", "words"), Column("Value")]
        rows: list[list[str | Cell]] = [[name, _shown(value)] for name, value in values.items()]
        return Table("Features, in the order of the schema", columns, rows, "")
    columns = [Column("Feature", "words"), Column("Value"), Column("Against the usual")]
    order = sorted(values, key=lambda name: -abs(departures.get(name, 0.0)))
    rows = [[name, _shown(values[name]), _departure(departures.get(name))] for name in order]
    return Table("Features, the most unusual first", columns, rows, "")


def is_long(value: Any) -> bool:
    """Tell whether a feature is to be looked at rather than compared, as further fields are."""
    return isinstance(value, str) and (len(value) > LONG or kind_of(value) in ("image", "link"))


def _shown(value: Any) -> str:
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and len(value) > _NUMBERS:
        return f"{len(value)} numbers"
    return amount(value) if _is_number(value) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _departure(found: float | None) -> Cell:
    if found is None:
        return Cell(NOTHING)
    if abs(found) < 0.05:
        return Cell("as usual", bar=0.0)
    text = f"{abs(found):.1f} sd {'above' if found > 0 else 'below'}"
    return Cell(text, bar=abs(found) / UNUSUAL, colour="warn" if abs(found) > 2 else "series-1")


def kind_of(value: Any) -> FieldKind:
    """Return how a further field is shown: as "image", "link", "text" or "value".

    Nothing is fetched from elsewhere: an address of another machine is a link to follow, and an
    image is shown where the record itself holds it.

    >>> kind_of("data:image/png;base64,iVBORw0KGgo="), kind_of("https://example.org/a.png")
    ('image', 'link')
    >>> kind_of("javascript:alert(1)"), kind_of(3.5)
    ('text', 'value')
    """
    if not isinstance(value, str):
        return "value"
    if value.startswith("data:image/"):
        return "image"
    is_address = value.startswith(("https://", "http://")) and not any(map(str.isspace, value))
    return "link" if is_address else "text"
