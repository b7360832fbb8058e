"""Third-party models (River) of a pipeline: an active model, shadow models and a transformer.

The transformer computes the fields of records before any model sees them.

The models' states are pickles, and loading a pickle executes code. A pickle is loaded only if:

- the pipeline file configures such models,
- the checkpoint is in a state folder that only its owner can write (`app.factories` checks this),
- the SHA-256 of the pickle is that in the checkpoint's manifest.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from streamboost.checks import Label
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.labels import LabelKind, label_to_json
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.values import decode_values, extract_original_record
from streamboost.errors import StateError
from streamboost.evaluation.evaluation import Evaluation
from streamboost.pipelines.models.model import ExternalModel
from streamboost.pipelines.models.transformer import Transformer
from streamboost.predictions import Scored
from streamboost.query.config import Requests
from streamboost.storage import Arrays, select_prefix

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ExternalModels:
    """The active model, the shadow models and the transformer of a pipeline, each optional.

    Attributes
    ----------
    serving : the model that makes the pipeline's predictions; None: the committee predicts
    shadow_models : maps a name to a model that is only evaluated
    transformer : transformer of the records' fields; None: fields are unchanged
    block, min_labels : number of records in a block of the audit sample, and of labels in recent
        estimates
    folder : the state folder
    release : name and release of the models' library: with another release, the models are rebuilt
    is_steady : returns whether the models are independent of Python's hash seed; takes seconds
    """

    serving: ExternalModel | None
    shadow_models: dict[str, ExternalModel]
    transformer: Transformer | None
    block: int
    min_labels: int
    folder: Path
    release: str
    is_steady: Callable[[], bool]
    _evaluations: dict[str, Evaluation] = field(init=False)

    def __post_init__(self) -> None:
        self._evaluations = {
            name: Evaluation(self.block, min_labels=self.min_labels) for name in self.shadow_models
        }

    def transform(self, records: Records, schema: Schema) -> Records:
        """Return the records with transformed values; without a transformer, unchanged."""
        made = self.transformer
        return records if made is None else made.transform_records(records, schema)

    def predict_with_shadow_models(self, records: Records, requests: Requests) -> None:
        """Predict the records of a batch with each shadow model, for its evaluation only.

        `requests` are the label requests of the batch.
        """
        chances = dict(zip(requests.ids, requests.propensity.tolist(), strict=True))
        propensity = np.array([chances.get(id, np.nan) for id in records.ids], dtype=np.float64)
        for name, model in self.shadow_models.items():
            scored = model.score(records.values or [])
            self._evaluations[name].add_records(
                records.ids, scored, propensity, requests.inclusion_probabilities
            )

    def learn(
        self,
        ids: Sequence[str],
        labels: Sequence[Label],
        sources: Sequence[str | None],
        values: Sequence[bytes | None],
        label_type: LabelKind | None,
    ) -> None:
        """Train all models and the transformer with labels, and evaluate the shadow models.

        Corrections of labels are not learned here. `sources` are the annotators. `values` are the
        result of `encode_values_of_records`. With `label_type` "boolean", a transformer gets the
        labels as true and false.
        """
        for evaluation in self._evaluations.values():
            evaluation.add_labels_unchecked(ids, labels, sources)
        for held, label in zip(values, labels, strict=True):
            row, whole = decode_values(held or b"[]"), extract_original_record(held or b"")
            for model in self._models_by_name().values():
                model.learn(row, label)
            if self.transformer is not None and whole is not None:
                self.transformer.learn(whole, label_to_json(label, label_type))

    def expire_requests(self, ids: Sequence[str]) -> None:
        """Mark the requests for records `ids` as expired in the shadow models' evaluations."""
        for evaluation in self._evaluations.values():
            evaluation.expire_requests(ids)

    def set_field_names(self, names: Sequence[str]) -> None:
        """Set the names of a record's fields in all models, after fields were added."""
        for model in self._models_by_name().values():
            model.names = list(names)

    def shadow_metrics(self) -> dict[str, Any]:
        """Return the evaluation metrics and failure count of each shadow model, keyed by name."""
        return {
            name: evaluation.to_json() | {"failures": self.shadow_models[name].failures}
            for name, evaluation in self._evaluations.items()
        }

    def snapshot(self) -> tuple[dict[str, Any], Arrays]:
        """Return the state: a JSON object for a checkpoint's manifest, and a dict of arrays."""
        arrays: Arrays = {}
        judged = {}
        for name, model in self._models_and_transformer_by_name().items():
            arrays |= {f"models.{name}.{key}": array for key, array in model.to_arrays().items()}
        for name, evaluation in self._evaluations.items():
            judged[name], tables = evaluation.state()
            arrays |= {f"judges.{name}.{key}": array for key, array in tables.items()}
        hashes = {key: _sha256(array) for key, array in arrays.items() if key.endswith(".pickle")}
        about = {
            "release": self.release,
            "serves": self.serving is not None,
            "transforms": self.transformer is not None,
            "sha256": hashes,
            "judges": judged,
        }
        return about, arrays

    def restore(self, manifest: Mapping[str, Any], arrays: Arrays) -> None:
        """Restore the state from the results of `snapshot`.

        Raises StateError if a pickle is missing or its hash differs from that in the manifest.
        """
        anew = manifest["release"] != self.release
        if anew:
            _log.warning(
                "%s is now %s: River's models are rebuilt from the labelled records that are kept",
                manifest["release"],
                self.release,
                extra={"event": "model_rebuilt"},
            )
        for name, model in self._models_and_transformer_by_name().items():
            own = select_prefix(arrays, f"models.{name}.")
            key = f"models.{name}.pickle"
            if not own or manifest["sha256"].get(key) != _sha256(own["pickle"]):
                raise StateError(f"{self.folder}: the checkpoint lacks the River model {name!r}")
            model.restore(own, relearn=anew)
        for name, evaluation in self._evaluations.items():
            evaluation.resume(manifest["judges"][name], select_prefix(arrays, f"judges.{name}."))

    def _models_by_name(self) -> dict[str, ExternalModel]:
        serving = {} if self.serving is None else {"[model]": self.serving}
        return serving | {
            f"shadow_models.{name}": model for name, model in self.shadow_models.items()
        }

    def _models_and_transformer_by_name(self) -> dict[str, ExternalModel | Transformer]:
        made = {} if self.transformer is None else {"[features]": self.transformer}
        return {**self._models_by_name(), **made}

    def score(self, records: Records) -> Scored:
        """Return the predictions of the active model for `records`."""
        assert self.serving is not None
        return self.serving.score(records.values or [])


def _sha256(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()
