"""Learner of a checkpoint, for processes that read a pipeline's state."""

from typing import TYPE_CHECKING

from streamboost.connectors.messages.schema import Schema
from streamboost.encoders import SentenceEncoders
from streamboost.errors import StateError
from streamboost.pipelines.state.checkpoints import Checkpoint
from streamboost.storage import select_prefix

if TYPE_CHECKING:
    from streamboost.learner.learner import StreamLearner


def restore_learner(
    checkpoint: Checkpoint, encoders: SentenceEncoders | None, remedy: str
) -> tuple[Schema, "StreamLearner"]:
    """Return the schema and the learner of a checkpoint, without a training in progress.

    Parameters
    ----------
    checkpoint : the checkpoint
    encoders : loader of the fields' sentence encoders
    remedy : end of the error message if the pipeline has a River model or transformer

    Raises
    ------
    StateError
        If a River model predicts or computes the fields, or if the files of a sentence encoder have
        changed since the checkpoint.
    """
    # The import loads the kernels.
    from streamboost.learner.learner import StreamLearner, without_running_training

    arrays, manifest = checkpoint
    models = manifest.get("models", {})
    if models.get("serves") or models.get("transforms"):
        does = "predicts in" if models.get("serves") else "computes the fields of"
        raise StateError(
            f"a River model {does} this pipeline, and only the pipeline reads its pickle: {remedy}"
        )
    learner = StreamLearner.restore(
        without_running_training(select_prefix(arrays, "learner.")), encoders
    )
    if learner.features is not None:
        learner.features.check_encoders_unchanged()
    return Schema.from_json(manifest["schema"]), learner
