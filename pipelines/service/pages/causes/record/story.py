"""What happened to a record, in sentences."""

from collections.abc import Collection, Mapping
from time import time
from typing import Any

from streamboost.pipelines.service.labelling.blind import HIDDEN
from streamboost.pipelines.service.pages.causes.record.doubts import is_disputed, voices, who_says
from streamboost.pipelines.service.pages.desk.record import UNTOLD
from streamboost.pipelines.wording import amount, clock, percent

__all__ = ["story"]

Found = Mapping[str, Any]


def story(found: Found, against: Collection[str] = ()) -> list[tuple[str, ...]]:
    """Return what happened to a record, in sentences, each with the names in it.

    `against` names whose labels go against the others' more often than chance explains.
    """
    when, label = clock(found.get("arrived")), found.get("label")
    told: list[tuple[str, ...]] = []
    if found.get(HIDDEN):
        told.append((f"It came at {when}. {UNTOLD}",))
    elif not found.get("asked"):
        if label is None:
            told.append((f"It was labelled at {when}, without a prediction and unasked.",))
        else:
            told.append((f"It was predicted as {{}}, and labelled at {when}, unasked.", str(label)))
    elif label is None:
        told.append((f"It was asked about at {when}, before there was any prediction.",))
    else:
        share = (found.get("probabilities") or {}).get(str(label))
        sure = "" if share is None else f", {percent(share)} sure"
        version, margin = found.get("version"), found.get("margin")
        by = f"by version {version}" if version else "by the labels so far"
        gap = "" if margin is None or not version else f", margin {amount(margin)}"
        told.append((f"Predicted as {{}} {by}{sure}{gap}, at {when}.", str(label)))
        expires = "" if found.get("truth") or found.get("expires") is None else _until(found)
        told += _verdict(found, against)
        told.append((f"{_asked(found)}{expires}",))
        if found.get("again") is not None:
            again = clock(found["again"])
            told.append((f"At {again} its label looked wrong, and it was asked about again.",))
        return told
    return told + _verdict(found, against)


def _verdict(found: Found, against: Collection[str]) -> list[tuple[str, ...]]:
    """Return who said that a prediction was right or wrong, and whether that is beyond dispute."""
    truth, label = found.get("truth"), found.get("label")
    if truth is None:
        return [("Nobody has said yet what it is.",)]
    if is_disputed(found):
        text = (
            "It is open what it is: its label has no more people behind it than another. The "
            "pipeline goes by it: {} says it is {}."
        )
        if label is not None and str(label) not in (said for _, said in voices(found)):
            text += " Nobody says that it is what was predicted."
        return [(text, who_says(found), str(truth))]
    return _judged(found) + _alone(found, against)


def _judged(found: Found) -> list[tuple[str, ...]]:
    truth, label, who = str(found["truth"]), found.get("label"), who_says(found)
    if label is None:
        return [("{} says it is {}.", who, truth)]
    if str(label) == truth:
        return [("That was right, says {}.", who)]
    return [("That was wrong: {} says it is {}.", who, truth)]


def _alone(found: Found, against: Collection[str]) -> list[tuple[str, ...]]:
    """Say whether one whose labels go `against` the others' is the only one who says so."""
    sources = [name for name, label in voices(found) if label == found["truth"]]
    if len(sources) != 1 or sources[0] not in against:
        return []
    text = "Only {} says so, whose labels go against the others' more often than chance explains."
    return [(text, sources[0])]


def _asked(found: Found) -> str:
    utility, chance = amount(found.get("utility")), percent(found.get("propensity"))
    return (
        f"Its label was asked for in batch {amount(found.get('sequence'))}: its utility was "
        f"{utility}, and its chance of being asked for {chance}."
    )


def _until(found: Found) -> str:
    expires = found["expires"]
    if not isinstance(expires, int):
        return ""
    if expires < 1000 * time():
        return f" An answer was to come by {clock(expires)}: now it may be too late."
    return f" An answer counts until {clock(expires)}."
