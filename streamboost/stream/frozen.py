"""What a learner knows of predicting, for others that predict by it and learn nothing.

That is its committee with the temperature, the tables of its features, the experts that do not
follow every label, and how many labels of each class there were.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.errors import ModelFileError
from streamboost.storage import Arrays, pack_json, part, unpack_json
from streamboost.stream.blend.memory import Memory
from streamboost.stream.training.jobs import from_arrays, in_arrays

if TYPE_CHECKING:
    from streamboost.stream.learner import StreamLearner
    from streamboost.stream.predictor import Predictor

__all__ = ["STANDING", "freeze", "thaw"]

STANDING = ("committee", "linear", "words")
"""The experts whose tables may be some labels old; the others go by the newest labels."""


def freeze(learner: "Predictor") -> Arrays:
    """Return what `thaw` needs, the larger tables by parts that seldom change together."""
    blend, tables = learner._blend.state()
    waiting, said = Memory().state()  # of records that wait for their labels, nothing
    about: dict[str, Any] = {
        "labels": list(learner._rows.counts.items()),
        "total": learner.n_labels,
        "temperature": learner.judge.temperature.state(),
        "renamed": list(learner._renamed.items()),
        "blend": blend | {"waiting": waiting},
        "n_features": learner.n_features,
    }
    arrays = {f"blend.{n}": a for n, a in tables.items() if not n.startswith("said.")}
    arrays |= {f"blend.said.{name}": array for name, array in said.items()}
    if learner.features is not None:
        about["features"], tables = learner.features.state()
        arrays |= {f"features.{name}": array for name, array in tables.items()}
    return arrays | in_arrays("committee.", learner.committee) | {"about": pack_json(about)}


def thaw(learner: "StreamLearner", arrays: Mapping[str, np.ndarray]) -> None:
    """Let a new `learner` of the same settings predict as the one that `freeze` was given."""
    try:
        about, given = unpack_json(arrays["about"]), dict(arrays)
        if "features" in about:
            assert learner.features is not None
            learner.features.resume(about["features"], part(given, "features."))
            learner.follow_features()
        else:
            learner.widen(about["n_features"])
        learner._rows.counts = dict(about["labels"])
        learner._rows.total = about["total"]
        learner._blend.resume(about["blend"], part(given, "blend."))
        learner.judge.temperature.resume(about["temperature"])
        learner._renamed = dict(about["renamed"])
        learner.trainer.champion = from_arrays("committee.", given)
    except (LookupError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"these arrays are not what a learner predicts by: {error!r}; let scorers and learner "
            "be of one release, with one pipeline file"
        ) from error
