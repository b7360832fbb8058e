"""Requests for Label Studio: decoded request messages, their state, and conversion to tasks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from streamboost.connectors.label_studio.interface import add_missing_fields
from streamboost.connectors.label_studio.project import KEY, ChoicesTag
from streamboost.connectors.messages.labels import label_from_json
from streamboost.pipelines.label_studio.tasks import TaskEntry
from streamboost.pipelines.status.reader import StatusReader

_FIELDS = ("id", "features", "guess", "probability", "utility", "excluded_annotators", KEY)
"""Keys in the data of every task."""


class RequestMessage(msgspec.Struct):
    """Request message with only the keys that a task needs."""

    id: str
    features: dict[str, Any]
    label: str | int | bool | None
    probabilities: dict[str, float | None]
    utility: float
    sequence: int
    excluded_annotators: list[str] | None = None

    def is_answered_by(self, annotator: str | None) -> bool:
        """Return whether a label of `annotator` (None: unknown) answers this request.

        Any label answers a first request. A relabel request, which has `excluded_annotators`, is
        answered by another known annotator only. The pipeline lists the annotators of earlier
        labels, so that these labels do not answer the request, in whatever order the streams are
        read.
        """
        excluded = self.excluded_annotators
        return excluded is None or (annotator is not None and annotator not in excluded)


read_request = msgspec.json.Decoder(RequestMessage).decode


@dataclass(frozen=True, slots=True)
class RequestState:
    """State of the pipeline's open requests, keyed by record id, after batch `sequence`.

    `fields` are the further fields seen in requested records so far.
    """

    sequence: int
    requests: Mapping[str, Mapping[str, Any]]
    fields: Collection[str]

    @classmethod
    def read(cls, status: StatusReader) -> "RequestState | None":
        """Read the state from `status`; None if it is unreadable or changed during the read."""
        before = status.change_counter()
        told = status.document("pipeline")
        found = {one["id"]: one for one in status.requests()}
        # An unreadable status looks empty; the stamp distinguishes the two.
        if told is None or not before or status.change_counter() != before:
            return None
        return cls(told["sequence"], found, told.get("fields", {}))

    def includes_request(self, entry: TaskEntry) -> bool:
        """Return whether the state includes the batch that wrote the request of `entry`."""
        return entry.sequence <= self.sequence

    def is_closed(self, entry: TaskEntry) -> bool:
        """Return whether the request of `entry` is closed: answered or expired."""
        return self.includes_request(entry) and entry.id not in self.requests


def build_task(
    entry: TaskEntry,
    pipeline_name: str,
    choices: ChoicesTag,
    fields: Mapping[str, Any],
    *,
    blind: bool,
) -> dict[str, Any]:
    """Convert a request to a task, with the committee's prediction as a pre-annotation.

    `fields` are the record's fields that the schema does not have. Variables of the labelling
    interface that the record lacks are empty. If labelling is `blind`, the task has no prediction.
    """
    request = read_request(entry.request)
    guess = None if blind or request.label is None else str(label_from_json(request.label))
    sure = request.probabilities.get(guess) if guess is not None else None
    data = {
        **fields,
        "id": request.id,
        "features": request.features,
        "guess": "hidden" if blind else guess or "nothing yet",
        "probability": sure,
        "utility": None if blind else request.utility,
        "excluded_annotators": ", ".join(request.excluded_annotators or ()),
    }
    add_missing_fields(data, choices.variables)
    data[KEY] = entry.key
    if guess not in choices.labels:
        return {"data": data}
    prediction = {
        "model_version": f"{pipeline_name} batch {request.sequence}",
        "score": sure,
        "result": choices.annotation_result(guess),
    }
    return {"data": data, "predictions": [prediction]}


def missing_variables(choices: ChoicesTag, fields: Collection[str]) -> list[str]:
    """Return the variables of the labelling interface that neither tasks nor `fields` define."""
    shown = {one.top_level_field for one in choices.variables if "$" not in one.path}
    return sorted(shown.difference(_FIELDS, fields))
