"""SLEADE and SGBT of CapyMOA, as models that may learn a record without its label.

SLEADE (Gomes et al., 2025) learns from unlabelled records, too. SGBT, streaming gradient boosted
trees (Gunasekara et al., 2024), learns from labelled ones only.
"""

from functools import partial

from capymoa import ssl
from capymoa.classifier import StreamingGradientBoostedTrees
from capymoa.core import Instance, LabeledInstance
from capymoa.stream import Schema

__all__ = ["SEMI_SUPERVISED"]


class PartlyLabelled:
    """A model of CapyMOA over numeric features and classes 0 to `n_classes` - 1."""

    def __init__(self, n_features, n_classes, seed, create):
        names = [f"x{j}" for j in range(n_features)]
        classes = [str(k) for k in range(n_classes)]
        self._schema = Schema.from_custom(
            features=[*names, "class"], target="class", categories={"class": classes}, name="stream"
        )
        self._model = create(self._schema, random_seed=1 + seed)

    def predict(self, x):
        """Return the class index; None before the first label."""
        return self._model.predict(Instance.from_array(self._schema, x))

    def learn(self, x, y):
        """Learn a record of class index `y`, or None; without a label, if the model can."""
        if y is not None:
            self._model.train(LabeledInstance.from_array(self._schema, x, int(y)))
        elif hasattr(self._model, "train_on_unlabeled"):
            self._model.train_on_unlabeled(Instance.from_array(self._schema, x))


SEMI_SUPERVISED = {
    "SLEADE": partial(PartlyLabelled, create=ssl.SLEADE),
    "SGBT": partial(PartlyLabelled, create=StreamingGradientBoostedTrees),
}
"""By name: create a model of a number of features, a number of classes and a seed."""
