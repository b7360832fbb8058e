"""Whether what people said of a record holds: who said what, and what speaks against it."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.pipelines.status.judged.annotators import votes_of
from streamboost.pipelines.status.reader import Status
from streamboost.pipelines.wording import percent

__all__ = ["UNNAMED", "disagreement", "is_disputed", "looks_wrong", "voices", "who_says"]

Found = Mapping[str, Any]

CONFIDENT = 0.7
"""How sure a prediction has to be that is held against a label."""

FEWEST = 3
"""Neighbours of which more than half have to agree with it."""

UNNAMED = "somebody unnamed"
"""Who gave a label that names nobody."""


def who_says(found: Found) -> str:
    """Return who gave the label that a record has.

    >>> who_says({"truth": "a", "labels": [[1, "a", "ann"], [2, "b", "bob"]]})
    'ann'
    """
    said = [name for name, label in voices(found) if label == found["truth"]]
    return said[-1] if said else UNNAMED


def voices(found: Found) -> list[tuple[str, str]]:
    """Return who says what of a record: of each who is named the newest label, and all others'.

    >>> voices({"labels": [[1, "a", "ann"], [2, None, "bob"], [3, "b", None], [4, "b", "eve"]]})
    [('somebody unnamed', 'b'), ('eve', 'b')]
    """
    votes = votes_of(found.get("labels") or ())
    return [(UNNAMED if one.source is None else one.source, one.label) for one in votes]


def is_disputed(found: Found) -> bool:
    """Whether as many people say that a record is something else as say what counts as its label.

    >>> is_disputed({"truth": "b", "labels": [[1, "a", "ann"], [2, "b", "bob"]]})
    True
    >>> is_disputed({"truth": "b", "labels": [[1, "a", "ann"], [2, "b", "bob"], [3, "b", "eve"]]})
    False
    """
    said = [label for _, label in voices(found)]
    others = (said.count(one) for one in set(said) if one != found.get("truth"))
    return max(others, default=0) >= max(said.count(str(found.get("truth"))), 1)


def disagreement(found: Found) -> tuple[str, ...] | None:
    """Return in words, and the names in them, what each said of a record; None: all the same.

    >>> disagreement({"labels": [[1, "a", "ann"], [2, "b", "bob"], [3, "b", "ann"]]})
    >>> disagreement({"labels": [[1, "a", "ann"], [2, "b", "bob"]]})
    ('People disagree: {} says {}, {} says {}.', 'ann', 'a', 'bob', 'b')
    """
    said = list(dict.fromkeys(voices(found)))
    if len({label for _, label in said}) < 2:
        return None
    text = ", ".join(["{} says {}"] * len(said))
    return f"People disagree: {text}.", *(part for one in said for part in one)


def looks_wrong(found: Found, near: Sequence[tuple[float, Status]]) -> tuple[str, ...] | None:
    """Return why a record's label looks wrong, and the names in it; None: it does not.

    It does where a confident prediction was another one, and most of the labelled records that are
    `near` are what was predicted.
    """
    truth, label = found.get("truth"), found.get("label")
    share = (found.get("probabilities") or {}).get(str(label)) or 0.0
    if truth is None or label is None or str(label) == truth or share < CONFIDENT:
        return None
    agreed = sum(str(one.get("truth")) == str(label) for _, one in near)
    if len(near) < FEWEST or 2 * agreed <= len(near):
        return None
    return (
        f"The label looks wrong: {{}} says {{}}, but it was predicted as {{}}, {percent(share)} "
        f"sure, and so are {agreed} of the {len(near)} labelled records most like it.",
        who_says(found),
        truth,
        str(label),
    )
