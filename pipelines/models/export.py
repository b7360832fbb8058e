"""Export of the committee in a pipeline's newest checkpoint, with the layout of its fields."""

import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from streamboost.connectors.messages.labels import label_to_json
from streamboost.connectors.messages.schema import Schema
from streamboost.encoders import SentenceEncoders
from streamboost.errors import StateError
from streamboost.pipelines.models.restored_learner import restore_learner
from streamboost.pipelines.state.folder import State
from streamboost.pipelines.state.versions import CommitteeStore
from streamboost.storage import encode_sealed_file

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee
    from streamboost.evaluation.decisions import Decisions
    from streamboost.evaluation.report import Estimate
    from streamboost.learner.learner import StreamLearner

ExportFormat = Literal["safetensors", "onnx", "lightgbm"]

_SUFFIXES: dict[ExportFormat, str] = {
    "safetensors": ".safetensors",
    "onnx": ".onnx",
    "lightgbm": ".txt",
}


@dataclass(frozen=True, slots=True)
class ExportedCommittee:
    """Exported committee: the content of the file, and notices about version and accuracy."""

    content: bytes
    version: int
    suffix: str
    """Suffix of the file's name."""
    notices: tuple[str, ...]
    """Sentences about the exported version and its accuracy."""


def export_committee(
    state: State,
    format: ExportFormat,
    version: int | None = None,
    encoders: SentenceEncoders | None = None,
) -> ExportedCommittee:
    """Return the active committee, or the kept `version`, in a `format` for other programs.

    The pipeline may be running, as only its newest checkpoint is read. `encoders` loads the
    sentence encoders of the fields.

    Raises
    ------
    ConfigurationError
        If a package is not installed that the format needs.
    DataError
        If the format cannot express the committee.
    StateError
        If there is no such committee yet, or other programs cannot make its columns or classes.
    """
    from streamboost.boosting.frames import FrameColumns  # the imports load the kernels
    from streamboost.export.layout import RecordLayout

    schema, learner, is_shadow = _restore_learner(state, encoders)
    committee = _find_committee(state, learner, version)
    _require_exportable(learner, committee)
    names = learner.columns(schema.features)[: committee.n_features]
    is_served = learner.committee is not None and committee.version == learner.committee.version
    is_alone = learner.experts == ("committee",)
    calibration = 1.0  # that of the pipeline is fitted to the predictions of the ensemble
    if is_served and is_alone and learner.evaluator.calibrate:
        calibration = learner.evaluator.temperature.value
    report = learner.evaluation.recent()
    metrics = report.committee if is_alone and not is_shadow else report.committee_alone
    if is_shadow and not is_alone:  # then the ensemble's predictions are compared
        metrics = None
    accuracy = None if metrics is None or not is_served else metrics.accuracy
    notices = (
        f"version {committee.version} of the committee is exported, not the ensemble",
        _describe_accuracy(accuracy, report.records, is_served=is_served),
    )
    about = {
        "notice": ". ".join(notices),
        "version": committee.version,
        "classes": [label_to_json(one, schema.label_kind) for one in committee.classes.tolist()],
        "columns": names,
        "link": committee.link,
        "temperature": committee.temperature,
        "calibration": calibration,
        "accuracy": None if accuracy is None else asdict(accuracy),
        "decision": None if learner.decisions is None else learner.decisions.to_json(),
    }
    layout = RecordLayout(
        committee.n_features,
        learner.features,
        () if learner.features is not None else tuple(schema.features),
        tuple(schema.hidden_paths),
        about,
    )
    metadata = layout.to_metadata()
    named = replace(committee, columns=FrameColumns(tuple(names)))
    if format == "safetensors":
        content = encode_sealed_file(committee.to_arrays(), kind="committee", manifest=metadata)
    elif format == "lightgbm":
        content = named.to_lightgbm(metadata, calibration=calibration).encode()
    else:
        decision = _decision_arrays(learner.decisions, committee.classes.tolist())
        content = named.to_onnx(metadata, calibration=calibration, decision=decision)
    return ExportedCommittee(content, committee.version, _SUFFIXES[format], notices)


def _restore_learner(
    state: State, encoders: SentenceEncoders | None
) -> tuple[Schema, "StreamLearner", bool]:
    """Return schema and learner, and whether the learner is compared with another system."""
    with state.translate_errors():
        found = state.checkpoints.newest()
    if found is None:
        raise StateError(
            f"{state.path} has no checkpoint to export from: wait for [pipeline] checkpoint_every "
            "batches, or stop the pipeline"
        )
    remedy = "no export format supports this; export a pipeline without such a model"
    return *restore_learner(found, encoders, remedy), "recorded" in found[1]


def _find_committee(state: State, learner: "StreamLearner", version: int | None) -> "Committee":
    served = learner.committee
    if version is None or (served is not None and served.version == version):
        if served is None:
            raise StateError(
                f"{state.path} has no committee yet: the first labels train one; export later"
            )
        return served
    store = CommitteeStore(state.versions, sys.maxsize)
    store.load_into_memory(version)
    return store[version]


def _require_exportable(learner: "StreamLearner", committee: "Committee") -> None:
    if learner.n_label_lags:
        raise StateError(
            f"{learner.n_label_lags} columns of this committee are lagged labels, which other "
            "programs do not have: export a pipeline with [committee] label_lags = 0"
        )
    changed = sorted(map(str, learner.renamed_classes.keys() & {*committee.classes.tolist()}))
    if changed:
        raise StateError(
            f"version {committee.version} of the committee predicts the classes "
            f"{', '.join(changed)}, which were merged or dropped later: run `streamboost control "
            "... retrain`, and export the next version"
        )


def _describe_accuracy(accuracy: "Estimate | None", n_records: int, *, is_served: bool) -> str:
    if not is_served:
        return "its accuracy is not estimated: the pipeline predicts with another version"
    if accuracy is None:
        return (
            "its accuracy is not estimated: too few requests were answered, or other processes "
            "score the records"
        )
    return (
        f"its own accuracy is {accuracy.value:.3f} [{accuracy.low:.3f}, {accuracy.high:.3f}] on "
        f"the newest {n_records:,} records (unbiased, 95 % interval, all versions that served)"
    )


def _decision_arrays(
    decisions: "Decisions | None", classes: list[Any]
) -> dict[str, np.ndarray] | None:
    if decisions is None:
        return None
    if decisions.costs:
        return {"costs": decisions.cost_matrix(classes)}
    return {"threshold": np.array([decisions.threshold.get(str(k), 0.0) for k in classes])}
