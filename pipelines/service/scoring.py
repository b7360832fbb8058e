"""On-demand predictions and explanations by a pipeline's newest checkpoint, without logging."""

import gc
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamboost.connectors.messages.labels import label_to_json
from streamboost.connectors.messages.schema import Schema
from streamboost.encoders import SentenceEncoders
from streamboost.errors import StateError
from streamboost.features.paths import path_getter
from streamboost.pipelines.models.restored_learner import restore_learner
from streamboost.pipelines.service.labelling.writers import decode_posted_records
from streamboost.pipelines.state.folder import State

if TYPE_CHECKING:
    import numpy as np

    from streamboost.learner.learner import StreamLearner
    from streamboost.predictions import Scored

Document = dict[str, Any]

_LOOK = 0.05
"""Seconds between two checks for a newer checkpoint: a check takes a tenth of a prediction."""

_SHARE = 0.05
"""Maximum share of a core for loading newer checkpoints."""


@dataclass(frozen=True, slots=True)
class _LoadedModel:
    sequence: int
    schema: Schema
    learner: "StreamLearner"

    def label_to_json(self, label: Any) -> Any:
        return label_to_json(label, self.schema.label_kind)


class CheckpointScorer:
    """Scorer of records with the learner of the newest checkpoint; thread-safe.

    Nothing is logged, requested or learned, and the pipeline need not run. A background thread
    loads newer checkpoints and scores a first record, while the loaded checkpoint continues to
    answer. If the pipeline writes checkpoints faster than they are loaded, some are skipped.

    Parameters
    ----------
    state : the pipeline's state folder
    encoders : loader of the fields' sentence encoders
    clock : monotonic clock, in seconds
    """

    def __init__(
        self,
        state: State,
        encoders: SentenceEncoders | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._encoders = encoders
        self._clock = clock
        self._due = 0.0
        self._known: _LoadedModel | None = None
        self._tried = -1
        self._loading = threading.Lock()
        self._scoring = threading.Lock()

    @property
    def is_ready(self) -> bool:
        """Whether `predict` would run at once: a model is loaded, and no other prediction runs."""
        return self._known is not None and not self._scoring.locked()

    def predict(self, records: Sequence[Document]) -> Document:
        """Return the predictions of `records`, and the batch sequence of the checkpoint.

        Raises DataError if a record is invalid, StateError if there is no checkpoint yet.
        """
        model = self._load_newest_model()
        ids, X = self._decode_records(model, records)
        with self._scoring:
            scored = model.learner.score(X)
            decided = model.learner.decide_classes(scored).tolist()
        found = [_prediction_document(model, id, scored, row) for row, id in enumerate(ids)]
        if model.learner.decisions is not None:
            for one, label in zip(found, decided, strict=True):
                one["decision"] = model.label_to_json(label)
        return {"sequence": model.sequence, "predictions": found}

    def explain(self, records: Sequence[Document]) -> Document:
        """Return each feature's contribution (SHAP values) to the committee's score of each class.

        See `Committee.contributions`. Raises the errors of `predict`, and DataError if the
        committee does not support contributions.
        """
        model = self._load_newest_model()
        ids, X = self._decode_records(model, records)
        committee = model.learner.committee
        if committee is None:
            raise StateError("there is no committee yet to explain: the first labels train one")
        with self._scoring:
            owed = committee.contributions(X[:, : committee.n_features])
        names = model.learner.columns(model.schema.features)[: committee.n_features]
        classes = [str(label) for label in committee.classes.tolist()]
        found = [
            {
                "id": id,
                "classes": {
                    label: {
                        "score": float(sums.sum()),
                        "expected": float(sums[-1]),
                        "features": dict(zip(names, sums[:-1].tolist(), strict=True)),
                    }
                    for label, sums in zip(classes, of_record, strict=True)
                },
            }
            for id, of_record in zip(ids, owed, strict=True)
        ]
        version = committee.version
        return {"sequence": model.sequence, "version": version, "explanations": found}

    def similarities(self, records: Sequence[Document]) -> list[float]:
        """Return how similar each record is to the first, from 0 to 1: `Committee.leaf_similarity`.

        Raises the errors of `predict`, and DataError if the committee is not made of trees.
        """
        model = self._load_newest_model()
        _, X = self._decode_records(model, records)
        committee = model.learner.committee
        if committee is None:
            raise StateError("there is no committee yet to compare by: the first labels train one")
        with self._scoring:
            found: list[float] = committee.leaf_similarity(X[:, : committee.n_features]).tolist()
        return found

    def _decode_records(
        self, model: _LoadedModel, records: Sequence[Document]
    ) -> tuple[list[str | None], "np.ndarray"]:
        """Return the ids of records (None: no id), and their rows, float32 (n, D)."""
        get = path_getter(model.schema.id)
        nameless = [get(record) is None for record in records]
        whole = [
            {**record, model.schema.id: str(n)} if is_nameless else record
            for n, (record, is_nameless) in enumerate(zip(records, nameless, strict=True))
        ]
        read, _ = decode_posted_records(model.schema, whole)
        learner = model.learner
        with self._scoring:
            X = (
                learner.add_label_lags(read.X)
                if read.values is None
                else learner.encode_records(read.values)
            )
        pairs = zip(read.ids, nameless, strict=True)
        return [None if is_nameless else id for id, is_nameless in pairs], X

    def _load_newest_model(self) -> _LoadedModel:
        """Return the loaded model; a newer checkpoint is loaded in the background."""
        now = self._clock()
        if self._known is not None and now < self._due:
            return self._known
        self._due = now + _LOOK
        with self._state.translate_errors():
            there = self._state.checkpoints.sequences
        if self._known is None:
            with self._loading:
                if self._known is None:
                    self._load_checkpoint()
                    if self._known is not None:
                        # Full collections ignore the loaded modules, which would take 0.1 s each.
                        gc.freeze()
            if self._known is None:
                raise StateError(
                    f"{self._state.path} has no checkpoint to predict with: wait for [pipeline] "
                    "checkpoint_every batches, or stop the pipeline"
                )
        elif there and there[0] != self._tried and self._loading.acquire(blocking=False):
            threading.Thread(
                target=self._load_checkpoint_and_unlock, name="load", daemon=True
            ).start()
        return self._known

    def _load_checkpoint_and_unlock(self) -> None:
        try:
            self._load_checkpoint()
        finally:
            self._loading.release()

    def _load_checkpoint(self) -> None:
        """Load the newest valid checkpoint; if there is none, keep the loaded model."""
        before = time.thread_time()
        try:
            self._restore_newest_checkpoint()
        finally:
            self._due = self._clock() + (time.thread_time() - before) / _SHARE

    def _restore_newest_checkpoint(self) -> None:
        there = self._state.checkpoints.sequences
        found = self._state.checkpoints.newest()
        self._tried = there[0] if there else -1
        if found is None:
            return
        schema, learner = restore_learner(
            found, self._encoders, "read the predictions that the pipeline writes"
        )
        _warm_up(learner)
        self._known = _LoadedModel(found[1]["sequence"], schema, learner)


def _warm_up(learner: "StreamLearner") -> None:
    """Score a record without values, so that no request waits for what a first call builds."""
    import numpy as np  # the library loads it anyway, but `serve` starts without

    if learner.n_features:
        learner.score(np.full((1, learner.n_features), np.nan, dtype=np.float32))


def _prediction_document(
    model: _LoadedModel, id: str | None, scored: "Scored", row: int
) -> Document:
    probabilities = scored.probabilities[row].tolist()
    classes = [str(label) for label in scored.classes.tolist()]
    return {
        "id": id,
        "label": model.label_to_json(scored.labels[row]),
        "probability": max(probabilities, default=None),
        "probabilities": dict(zip(classes, probabilities, strict=True)),
        "margin": float(scored.margins[row]),
        "version": scored.version,
    }
