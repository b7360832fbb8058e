"""Predictions on demand: what a pipeline's newest checkpoint says of records that nobody logs."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamboost.connectors.messages.labels import as_json
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import StateError
from streamboost.features.paths import getter
from streamboost.pipelines.service.labelling.writers import decoded
from streamboost.pipelines.state.folder import State
from streamboost.storage import part

if TYPE_CHECKING:
    import numpy as np

    from streamboost.stream.learner import StreamLearner
    from streamboost.stream.scoring import Scored

__all__ = ["Scoring"]

Document = dict[str, Any]

_LOOK = 0.05
"""Seconds from one look for a newer checkpoint to the next: each costs a tenth of a prediction."""

_SHARE = 0.05
"""The share of a core that loading newer checkpoints takes, at most."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What a checkpoint knows: of which batch, how records are read, and who predicts them."""

    sequence: int
    schema: Schema
    learner: "StreamLearner"

    def label(self, label: Any) -> Any:
        """Return a label as messages have it."""
        return as_json(label, self.schema.labels_are)


class Scoring:
    """Predicts records as the pipeline would have after its newest checkpoint; for any threads.

    Nothing is logged, asked or learned, and the pipeline need not run. A newer checkpoint is loaded
    by a thread, while the one before goes on answering; at full speed a pipeline takes several a
    second, and some are passed over then.

    Parameters
    ----------
    state : the pipeline's folder
    clock : gives seconds that never go back
    """

    def __init__(self, state: State, clock: Callable[[], float] = time.monotonic) -> None:
        self._state = state
        self._clock = clock
        self._due = 0.0
        self._known: _Known | None = None
        self._asked: _Known | None = None
        self._tried = -1
        self._loading = threading.Lock()
        self._scoring = threading.Lock()

    @property
    def is_at_hand(self) -> bool:
        """Whether a few records are predicted at once: all is loaded, and nobody else is served."""
        return self._asked is self._known is not None and not self._scoring.locked()

    def predict(self, records: Sequence[Document]) -> Document:
        """Return what is predicted of `records`, and the batch of the pipeline it goes by.

        Raises DataError where one of them cannot be used, StateError where nothing is known yet.
        """
        known = self._newest()
        ids, X = self._read(known, records)
        with self._scoring:
            scored = known.learner.score(X)
            decided = known.learner.decide(scored).tolist()
        found = [_prediction(known, id, scored, row) for row, id in enumerate(ids)]
        if known.learner.decisions is not None:
            for one, label in zip(found, decided, strict=True):
                one["decision"] = known.label(label)
        self._asked = known
        return {"sequence": known.sequence, "predictions": found}

    def explain(self, records: Sequence[Document]) -> Document:
        """Return what each feature does to the committee's score of each class of `records`.

        See `Committee.contributions`. Raises as `predict` does, and DataError where the committee
        is of another kind.
        """
        known = self._newest()
        ids, X = self._read(known, records)
        committee = known.learner.committee
        if committee is None:
            raise StateError("there is no committee yet to explain: the first labels train one")
        with self._scoring:
            owed = committee.contributions(X[:, : committee.n_features])
        names = known.learner.columns(known.schema.features)[: committee.n_features]
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
        return {"sequence": known.sequence, "version": version, "explanations": found}

    def _read(
        self, known: _Known, records: Sequence[Document]
    ) -> tuple[list[str | None], "np.ndarray"]:
        """Return the ids of records, None where one has none, and their rows, float32 (n, D)."""
        get = getter(known.schema.id)
        nameless = [get(record) is None for record in records]
        whole = [
            {**record, known.schema.id: str(n)} if is_nameless else record
            for n, (record, is_nameless) in enumerate(zip(records, nameless, strict=True))
        ]
        read, _ = decoded(known.schema, whole)
        learner = known.learner
        with self._scoring:
            X = learner.with_lags(read.X) if read.values is None else learner.rows(read.values)
        pairs = zip(read.ids, nameless, strict=True)
        return [None if is_nameless else id for id, is_nameless in pairs], X

    def _newest(self) -> _Known:
        """Return what is known; where there is more by now, have it loaded."""
        now = self._clock()
        if self._known is not None and now < self._due:
            return self._known
        self._due = now + _LOOK
        with self._state.told():
            there = self._state.checkpoints.sequences
        if self._known is None:
            with self._loading:
                if self._known is None:
                    self._load()
            if self._known is None:
                raise StateError(
                    f"{self._state.path} holds no checkpoint to predict by: the pipeline takes one "
                    "every [pipeline] checkpoint_every batches, and when it is stopped"
                )
        elif there and there[0] != self._tried and self._loading.acquire(blocking=False):
            threading.Thread(target=self._reload, name="load", daemon=True).start()
        return self._known

    def _reload(self) -> None:
        try:
            self._load()
        finally:
            self._loading.release()

    def _load(self) -> None:
        """Load the newest sound checkpoint; where there is none, what is known stays."""
        before = time.thread_time()
        try:
            self._restore()
        finally:
            self._due = self._clock() + (time.thread_time() - before) / _SHARE

    def _restore(self) -> None:
        from streamboost.stream.learner import StreamLearner, at_rest  # they load the kernels

        there = self._state.checkpoints.sequences
        found = self._state.checkpoints.newest()
        self._tried = there[0] if there else -1
        if found is None:
            return
        arrays, manifest = found
        models = manifest.get("models", {})
        if models.get("serves") or models.get("transforms"):
            does = "serves" if models.get("serves") else "makes the fields of"
            raise StateError(
                f"a River model {does} this pipeline, whose pickle no other process reads: ask the "
                "predictions it writes"
            )
        schema = Schema.from_json(manifest["schema"])
        learner = StreamLearner.restore(at_rest(part(arrays, "learner.")))
        self._known = _Known(manifest["sequence"], schema, learner)


def _prediction(known: _Known, id: str | None, scored: "Scored", row: int) -> Document:
    probabilities = scored.probabilities[row].tolist()
    classes = [str(label) for label in scored.classes.tolist()]
    return {
        "id": id,
        "label": known.label(scored.labels[row]),
        "probability": max(probabilities, default=None),
        "probabilities": dict(zip(classes, probabilities, strict=True)),
        "margin": float(scored.margins[row]),
        "version": scored.version,
    }
