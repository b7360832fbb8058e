"""What can be said of a record of which nothing more is kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamboost.pipelines.service.labelling.blind import HIDDEN
from streamboost.pipelines.service.pages.desk.record import UNTOLD
from streamboost.pipelines.service.pages.view import View
from streamboost.pipelines.status.reader import StatusReader
from streamboost.pipelines.wording import percent, plural

__all__ = ["Traces", "what_became"]


@dataclass(frozen=True, slots=True)
class Traces:
    """What a status has of a record that is none of those asked about or labelled.

    Attributes
    ----------
    prediction : what was predicted of it, if that is among the newest predictions
    is_open : whether its label is asked for
    predictions : how many of the newest predictions are kept
    records : how many are kept of the records that were asked about or labelled
    """

    prediction: Mapping[str, Any] | None = None
    is_open: bool = False
    predictions: int = 0
    records: int = 0

    @classmethod
    def of(cls, id: str, status: StatusReader) -> "Traces":
        """Look for the record `id`."""
        newest = status.predictions()
        mine = next((one for one in newest if str(one["id"]) == id), None)
        return cls(mine, status.request(id) is not None, len(newest), status.count(None))


def what_became(id: str, traces: Traces, view: View) -> tuple[str, ...]:
    """Return what became of a record as far as that is known, and the names in it."""
    if traces.is_open:
        return "Record {} was asked about, and nobody has answered yet.", id
    if traces.prediction is not None:
        return _predicted(id, traces.prediction)
    ledger, join = view.document("ledger"), view.document("join")
    asked = ledger.get("requests", 0) - ledger.get("again", 0) + join.get("unasked", 0)
    if not join or traces.records < asked:
        return (
            "Nothing is kept of a record {}: it was never asked about, or so long ago that it is "
            f"no longer kept, or no such record ever came.{_kept(traces)}",
            id,
        )
    if join.get("records", 0) <= traces.predictions and not view.document("workers"):
        return "No record {} has ever come.", id
    return (
        "Record {} was never asked about and nobody labelled it, if it ever came."
        f"{_kept(traces)}",
        id,
    )


def _predicted(id: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    if found.get("asked"):
        came = "Record {} was asked about, together with more records than are kept at once."
    else:
        came = "Record {} came and was never asked about, nor did anybody label it."
    if HIDDEN in found:
        return f"{came} {UNTOLD}", id
    if found.get("label") is None:
        return f"{came} There was no prediction yet.", id
    version = found.get("version")
    by = f"by version {version}" if version else "by the labels so far"
    share = found.get("probability")
    sure = "" if share is None else f", {percent(share)} sure"
    return f"{came} It was predicted as {{}} {by}{sure}.", id, str(found["label"])


def _kept(traces: Traces) -> str:
    predictions = f", and the newest {plural(traces.predictions, 'prediction')}"
    newest = plural(traces.records, "record")
    return (
        f" Kept here are the newest {newest} that were asked about or labelled"
        f"{predictions if traces.predictions else ''}."
    )
