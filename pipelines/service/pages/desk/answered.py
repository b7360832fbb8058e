"""What was answered, as the labelling page shows it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from streamboost.pipelines.service.access.people import Person
from streamboost.pipelines.service.labelling.store import LabellingEntry
from streamboost.pipelines.wording import clock, visible

__all__ = ["rows"]

_ACTIONS: dict[str, Callable[[LabellingEntry], str]] = {
    "label": lambda entry: str(entry.label),
    "skip": lambda entry: "skipped",
    "not_sure": lambda entry: "not sure",
}
_STAGES = {
    "held": "can be undone",
    "writing": "being written",
    "written": "written",
    "late": "came too late",
    "undone": "taken back",
}


def rows(
    entries: Sequence[LabellingEntry],
    differ: Mapping[str, Sequence[tuple[str, str | int]]],
    person: Person,
) -> list[dict[str, Any]]:
    """Return what stands in each row.

    `differ` says who said what of records that people see differently. Somebody may change what
    they said themselves, and an operator all; of a record, the newest answer. What came too late is
    no answer to change.
    """
    newest: set[str] = set()
    found = []
    for entry in entries:
        is_label = entry.action == "label" and entry.stage not in ("undone", "late")
        is_theirs = person.role == "operator" or entry.person == person.name
        others = [
            f"{name}: {label}" for name, label in differ.get(entry.id, ()) if name != entry.person
        ]
        found.append(
            {
                "number": entry.number,
                "id": visible(entry.id),
                "answer": visible(_ACTIONS[entry.action](entry)),
                "others": visible(", ".join(others)) if is_label else "",
                "person": visible(entry.person),
                "when": clock(entry.time),
                "state": _STAGES.get(entry.stage, "noted"),
                "changeable": is_label and is_theirs and entry.id not in newest,
            }
        )
        newest |= {entry.id} if is_label else set()
    return found
