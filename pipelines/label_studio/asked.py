"""What a pipeline asks: a request as it was written, and as a task of Label Studio."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from streamboost.connectors.label_studio.interface import complete
from streamboost.connectors.label_studio.project import KEY, Choices
from streamboost.connectors.messages.labels import as_text
from streamboost.pipelines.label_studio.tasks import TaskEntry
from streamboost.pipelines.status.reader import StatusReader

__all__ = ["Asked", "Standing", "lacking", "read_request", "task_of"]

_FIELDS = ("id", "features", "guess", "probability", "utility", KEY)
"""What every task's data has."""


class Asked(msgspec.Struct):
    """A request, as far as a task shows it."""

    id: str
    features: dict[str, Any]
    label: str | int | bool | None
    probabilities: dict[str, float | None]
    utility: float
    sequence: int


read_request = msgspec.json.Decoder(Asked).decode


@dataclass(frozen=True, slots=True)
class Standing:
    """The requests that were open, by their records' ids, after batch `sequence`.

    `fields` are the further fields that some record of a request has had.
    """

    sequence: int
    requests: Mapping[str, Mapping[str, Any]]
    fields: Collection[str]

    @classmethod
    def read(cls, status: StatusReader) -> "Standing | None":
        """Return what `status` says, None while that cannot be told."""
        before = status.stamp()
        told = status.document("pipeline")
        found = {one["id"]: one for one in status.requests()}
        # What could not be read looks as if there were nothing: the stamp gives it away.
        if told is None or not before or status.stamp() != before:
            return None
        return cls(told["sequence"], found, told.get("fields", {}))

    def knows(self, entry: TaskEntry) -> bool:
        """Tell whether it is from after the request was made."""
        return entry.sequence <= self.sequence

    def has_closed(self, entry: TaskEntry) -> bool:
        """Tell whether the request was open and is not any more."""
        return self.knows(entry) and entry.id not in self.requests


def task_of(
    entry: TaskEntry, name: str, choices: Choices, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a request as a task, with what the committee said as its prediction.

    `name` is the pipeline's, `fields` are the further ones of the record. What the project shows
    and the record lacks is empty.
    """
    request = read_request(entry.request)
    guess = None if request.label is None else str(as_text(request.label))
    sure = request.probabilities.get(guess) if guess is not None else None
    data = {
        **fields,
        "id": request.id,
        "features": request.features,
        "guess": guess or "nothing yet",
        "probability": sure,
        "utility": request.utility,
    }
    complete(data, choices.variables)
    data[KEY] = entry.key
    if guess not in choices.labels:
        return {"data": data}
    prediction = {
        "model_version": f"{name} batch {request.sequence}",
        "score": sure,
        "result": choices.result(guess),
    }
    return {"data": data, "predictions": [prediction]}


def lacking(choices: Choices, fields: Collection[str]) -> list[str]:
    """Return what the project shows and no record has, which may have `fields` as well."""
    shown = {one.field for one in choices.variables if "$" not in one.path}
    return sorted(shown.difference(_FIELDS, fields))
