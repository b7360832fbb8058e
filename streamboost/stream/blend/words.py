"""What the texts say, as an expert of its own."""

from typing import ClassVar

import numpy as np

from streamboost.features import Features
from streamboost.features.text import normalized
from streamboost.stream.blend.experts import Expert, Records

__all__ = ["Words"]


class Words(Expert):
    """The linear models of the texts, whose log probabilities are columns of each record."""

    opinions: ClassVar[tuple[str, ...]] = ("words",)

    def __init__(self, features: Features, n_before: int) -> None:
        self._features = features
        self._n_before = n_before  # columns before those of the features

    def say(self, records: Records, said: np.ndarray) -> None:
        """See `Expert`; of classes that the texts do not tell apart it says what they do."""
        if not self._features.expert:
            return
        for label, column in zip(self._features.classes, self._features.expert, strict=False):
            k = records.place.get(label)
            if k is not None:
                words = records.X[:, self._n_before + column]
                said[0, :, k] = np.where(np.isnan(words), said[0, :, k], words)
        said[0] = normalized(said[0])
