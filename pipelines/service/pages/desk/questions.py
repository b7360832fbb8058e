"""What a person is shown of a request, in words, before they answer it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any, Literal

from streamboost.active.utilities import UTILITIES
from streamboost.connectors.messages.labels import as_text, nearest, tidied
from streamboost.errors import DataError
from streamboost.pipelines.service.labelling.queue import OpenRequest
from streamboost.pipelines.wording import NOTHING, amount, clock, percent, visible

__all__ = [
    "Choice",
    "Doubt",
    "FieldKind",
    "choices",
    "doubt_of",
    "give_keys",
    "is_long",
    "kind_of",
    "label_of",
    "until",
    "why",
]

ACTIONS = "snuc"
"""Keys that stand for skipping, not being sure, undoing and changing."""

KEYS = "123456789" + "".join(key for key in ascii_lowercase if key not in ACTIONS)
"""Those that stand for classes, the first that are given first."""

_OWN_KEYS = {*KEYS, "0"}

FieldKind = Literal["image", "link", "text", "value"]


LONG = 40
"""Characters from which on a text stands above the features."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A class to choose.

    `key` is what stands for it, `share` what the committee gives it, `part` the same from
    0 to 1, `guess` whether it is the committee's.
    """

    label: str | int
    name: str
    key: str | None
    share: str | None
    part: float
    guess: bool


def give_keys(keys: dict[str | int, str], known: Sequence[str | int]) -> None:
    """Give those `known` classes that have none a key, and let the others keep theirs.

    Where the names of all are single characters, they are the keys; else they are the digits from 1
    on, then the letters.

    >>> keys = {}
    >>> give_keys(keys, ["b", "cat"]); give_keys(keys, ["a", "b", "cat"]); keys
    {'b': '1', 'cat': '2', 'a': '3'}
    >>> digits = {}
    >>> give_keys(digits, [0, 1, 7]); digits
    {0: '0', 1: '1', 7: '7'}
    """
    speak = all(str(label).lower() in _OWN_KEYS for label in known)
    for label in known:
        taken = set(keys.values())
        free = [key for key in KEYS if key not in taken]
        own = str(label).lower()
        if label not in keys and speak and own not in taken:
            keys[label] = own
        elif label not in keys and free:
            keys[label] = free[0]


def choices(
    request: OpenRequest,
    known: Sequence[str | int],
    keys: Mapping[str | int, str],
    *,
    blind: bool = False,
) -> list[Choice]:
    """Return the classes to choose from, in the order of their `keys`.

    They keep their places whatever the record is. Those without a key stand behind them, the
    likeliest first. Where labelling is `blind`, nothing tells what the committee thinks.

    >>> request = {"label": "b", "probabilities": {"a": 0.25, "b": 0.75}}
    >>> keys = {"a": "1", "b": "2", "c": "3"}
    >>> [(one.key, one.name, one.share, one.guess) for one in choices(request, list(keys), keys)]
    [('1', 'a', '25.0 %', False), ('2', 'b', '75.0 %', True), ('3', 'c', None, False)]
    """
    probabilities = {} if blind else request.get("probabilities") or {}
    guess = None if blind else as_text(request.get("label"))
    shares = {label: probabilities.get(str(label)) for label in known}
    placed = [label for label in keys if label in shares]
    order = placed + sorted(
        (label for label in known if label not in keys), key=lambda label: -(shares[label] or 0.0)
    )
    return [
        Choice(
            label=label,
            name=visible(str(label)),
            key=keys.get(label),
            share=None if shares[label] is None else percent(shares[label]),
            part=shares[label] or 0.0,
            guess=label == guess,
        )
        for label in order
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
    'Picked with a chance of 25.0 %: the more a label would teach, the better its chance (utility
    0.4).'
    >>> why({"label": "a", "not_by": ["ann"], "propensity": 1.0, "utility": 0.4}, chance)
    'Somebody labelled it already, and that label looks wrong: it is asked for again.'
    """
    if "not_by" in request:
        return "Somebody labelled it already, and that label looks wrong: it is asked for again."
    if request.get("label") is None:
        return "Asked before anything had been learned, when records are picked at random."
    propensity = float(request.get("propensity") or 0.0)
    if strategy.get("rule") == "chance" and strategy.get("utility") != "random":
        return (
            f"Picked with a chance of {percent(propensity)}: the more a label would teach, the "
            f"better its chance ({_utility(request)})."
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


def is_long(value: Any) -> bool:
    """Tell whether a feature is to be looked at rather than compared, as further fields are."""
    return isinstance(value, str) and (len(value) > LONG or kind_of(value) in ("image", "link"))


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
