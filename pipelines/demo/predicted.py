"""Evaluation of the predictions in the user's records, from few labels and from all labels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamboost.errors import DataError
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.durations import RecordCountAndBatchTime
from streamboost.pipelines.demo.compare import LabelledStream, create_pipeline, pipeline_sections
from streamboost.pipelines.runner.batch import StepResult
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.shutdown import StopToken
from streamboost.pipelines.status.formatting import RECORDED, estimate_text, gain_text, percent_text

BUDGET = 0.02
"""Default share of the records whose label is requested."""

_LOOK_EVERY = 5
"""Batches between two looks for a drop of the accuracy."""


@dataclass(slots=True)
class PredictionResult:
    """Estimated accuracy of the predictions from few labels, and its true value from all labels.

    `right` of `records` predictions are correct; `labels` were requested and answered. `accuracy`,
    `gain` and `drop` are estimates with the keys value, low and high. `gain` is the accuracy of
    streamboost's model minus that of the predictions. `drop` is the first significant drop of the
    accuracy, reported after `drop_labels` labels and `drop_records` records; None without a drop.
    `counts` are those of `RecordedPredictions`.
    """

    records: int = 0
    right: int = 0
    labels: int = 0
    accuracy: Mapping[str, float] | None = None
    gain: Mapping[str, float] | None = None
    drop: Mapping[str, float] | None = None
    drop_labels: int | None = None
    drop_records: int | None = None
    counts: Mapping[str, int] | None = None


class _PredictionObserver(Observer):
    """Compares the predictions with all labels, and stores the estimates of each checkpoint."""

    def __init__(self, truth: Mapping[str, str]) -> None:
        self.result = PredictionResult()
        self._truth = truth

    def on_commit(self, effects: StepResult) -> None:
        pairs = zip(effects.records.ids, effects.scored.labels.tolist(), strict=True)
        self.result.right += sum(self._truth[id] == label for id, label in pairs)
        self.result.records += len(effects.records)

    def on_checkpoint(self, now: RecordCountAndBatchTime, manifest: Mapping[str, Any]) -> None:
        found, evaluation = self.result, manifest["evaluation"]
        found.labels = manifest["ledger"]["answered"]
        found.accuracy = evaluation["since_start"]["committee"]["accuracy"]
        found.gain = evaluation["since_start"]["gain_alone"]
        found.counts = manifest["recorded"]
        drop = evaluation["drop"]
        if found.drop is None and drop is not None and drop["low"] > 0.0:
            found.drop, found.drop_labels, found.drop_records = drop, found.labels, found.records


def evaluate_predictions(
    stream: LabelledStream, field: str, folder: Path, *, seed: int, budget: float, stop: StopToken
) -> PredictionResult:
    """Run a pipeline that evaluates the predictions in `field` of the records of `stream`."""
    sections = pipeline_sections(stream, "margin", seed, budget)
    sections["pipeline"]["checkpoint_every"] = _LOOK_EVERY
    classes = sorted(set(stream.truth.values()))
    sections["schema"] = sections.get("schema", {}) | {"classes": classes}
    sections["model"] = {"prediction_field": field}
    watch = _PredictionObserver(stream.truth)
    run(create_pipeline(sections, folder), until_idle=True, stop=stop, observers=[watch])
    found = watch.result
    if not stop.requested and not (found.counts or {}).get("valid"):
        raise DataError(
            f"{stream.name}: no record has a valid prediction in {field!r}: name the field with a "
            "label, or with a map or list of class probabilities"
        )
    return found


def result_lines(found: PredictionResult, field: str) -> Iterator[str]:
    """Yield the result as lines of text."""
    right = percent_text(found.right / max(found.records, 1))
    yield f"all {found.records:,} labels: {field} is right in {right} of the records"
    yield f"{found.labels:,} labels: {estimate_text(found.accuracy)}, with a 95 % interval"
    if found.drop is None:
        yield "drop: none was reported"
    else:
        yield (
            f"drop: reported after {found.drop_records:,} records and {found.drop_labels:,} labels"
            f", {gain_text(found.drop).replace('better', 'less')}"
        )
    yield f"own model, trained on these labels: {gain_text(found.gain)}"
    for name, n in (found.counts or {}).items():
        if n and name != "valid":
            yield f"{name.replace('_', ' ')}: {n:,} {RECORDED[name]}"
