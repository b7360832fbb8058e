"""Models of others on a pipeline's records and labels: one that serves, and rivals beside it.

Before the fields of records, and so before all that learns, a transformer of theirs may stand.

Their states are pickles, which run what stands in them when they are read. They are read only where
the pipeline file asks for such models, from a checkpoint in a state folder that is its owner's
alone (`job.factories` sees to that), and only if they have the SHA-256 that the checkpoint's
manifest names.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from streamboost.active.query import Requests
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.labels import LabelKind, as_json
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import StateError
from streamboost.pipelines.engine.join import Joined
from streamboost.pipelines.engine.models.model import Model
from streamboost.pipelines.engine.models.transformer import Transformer
from streamboost.pipelines.engine.values import unpacked, whole_in
from streamboost.storage import Arrays, part
from streamboost.stream.evaluation.evaluation import Evaluation
from streamboost.stream.scoring import Scored

__all__ = ["Models"]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Models:
    """The model that serves, if one does, the rivals by their names, and what makes the fields.

    Attributes
    ----------
    serving, rivals
        What predicts; rivals never serve.
    transformer
        What makes the fields of records as they come; None: they are those that came.
    block
        m, the records in an audit's block.
    folder
        The state folder.
    release
        Of what the models are made with: with another one they begin anew.
    is_steady
        Whether the models come to the same whatever the seed of Python's hashes; it takes seconds.
    """

    serving: Model | None
    rivals: dict[str, Model]
    transformer: Transformer | None
    block: int
    folder: Path
    release: str
    is_steady: Callable[[], bool]
    _judges: dict[str, Evaluation] = field(init=False)

    def __post_init__(self) -> None:
        self._judges = {name: Evaluation(self.block) for name in self.rivals}

    def made_of(self, records: Records, schema: Schema) -> Records:
        """Return records that have arrived, their values made by the transformer, if any."""
        made = self.transformer
        return records if made is None else made.records(records, schema)

    def arrive(self, records: Records, asked: Requests) -> None:
        """Have rivals predict the records of a batch, of which some are asked about."""
        chances = dict(zip(asked.ids, asked.propensity.tolist(), strict=True))
        propensity = np.array([chances.get(id, np.nan) for id in records.ids], dtype=np.float64)
        for name, model in self.rivals.items():
            scored = model.score(records.values or [])
            self._judges[name].arrive(records.ids, scored, propensity, asked.chances)

    def learn(self, joined: Joined, kind: LabelKind | None) -> None:
        """Learn the labels of a batch, and judge rivals by them; corrections teach nothing here.

        A transformer is given labels of the `kind` "boolean" as true and false.
        """
        for judge in self._judges.values():
            judge.label_checked(joined.ids, joined.labels)
        for held, label in zip(joined.values, joined.labels, strict=True):
            values, whole = unpacked(held or b"[]"), whole_in(held or b"")
            for model in self._all().values():
                model.learn(values, label)
            if self.transformer is not None and whole is not None:
                self.transformer.learn(whole, as_json(label, kind))

    def expire(self, ids: Sequence[str]) -> None:
        """Wait no longer for the labels of these requests."""
        for judge in self._judges.values():
            judge.expire(ids)

    def follow(self, names: Sequence[str]) -> None:
        """Take on the fields that records have gained."""
        for model in self._all().values():
            model.names = list(names)

    def in_numbers(self) -> dict[str, Any]:
        """Return the figures of each rival, as JSON can hold them."""
        return {
            name: judge.in_numbers() | {"failures": self.rivals[name].failures}
            for name, judge in self._judges.items()
        }

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all there is: one part for the manifest, the other as arrays."""
        arrays: Arrays = {}
        judged = {}
        for name, model in self._pickled().items():
            arrays |= {f"models.{name}.{key}": array for key, array in model.state().items()}
        for name, judge in self._judges.items():
            judged[name], tables = judge.state()
            arrays |= {f"judges.{name}.{key}": array for key, array in tables.items()}
        hashes = {key: _sha256(array) for key, array in arrays.items() if _is_pickle(key)}
        about = {
            "release": self.release,
            "serves": self.serving is not None,
            "transforms": self.transformer is not None,
            "sha256": hashes,
            "judges": judged,
        }
        return about, arrays

    def resume(self, about: Mapping[str, Any], arrays: Arrays) -> None:
        """Go on from what `state` returned; StateError where it is not to be trusted."""
        anew = about["release"] != self.release
        if anew:
            _log.warning(
                "%s is now %s: River's models begin anew, from the labelled records that are kept",
                about["release"],
                self.release,
            )
        for name, model in self._pickled().items():
            own = part(arrays, f"models.{name}.")
            key = f"models.{name}.pickle"
            if not own or about["sha256"].get(key) != _sha256(own["pickle"]):
                raise StateError(f"{self.folder}: the checkpoint lacks the River model {name!r}")
            model.resume(own, anew=anew)
        for name, judge in self._judges.items():
            judge.resume(about["judges"][name], part(arrays, f"judges.{name}."))

    def _all(self) -> dict[str, Model]:
        serving = {} if self.serving is None else {"[model]": self.serving}
        return serving | {f"rivals.{name}": model for name, model in self.rivals.items()}

    def _pickled(self) -> dict[str, Model | Transformer]:
        made = {} if self.transformer is None else {"[features]": self.transformer}
        return {**self._all(), **made}

    def score(self, records: Records) -> Scored:
        """Return what the model that serves says of records."""
        assert self.serving is not None
        return self.serving.score(records.values or [])


def _is_pickle(key: str) -> bool:
    return key.endswith(".pickle")


def _sha256(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()
