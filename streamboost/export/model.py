"""Boosted trees with their link: the part of a committee that is exported."""

from dataclasses import dataclass

import numpy as np

from streamboost.errors import DataError
from streamboost.trees.forest import Forest


@dataclass(frozen=True, slots=True, eq=False)
class TreeModel:
    """Model whose scores are `base` plus the leaf values of the trees of `forest`.

    Parameters
    ----------
    classes
        The class labels (K,).
    base
        Scores before the first tree, float64 (K,).
    forest
        The trees, with leaf values float32 (leaves, K).
    n_features
        D, the number of columns of the rows.
    link
        "softmax", or "sigmoid" for sigmoids divided by their sum.
    temperature
        Divisor of the scores before the link.
    columns
        Names of the columns (D,). Empty: the columns are numbered.
    calibration
        Temperature of the probabilities, applied after the link: the divisor of their logarithms.

    Raises
    ------
    DataError
        If the link is neither softmax nor sigmoid.
    """

    classes: np.ndarray
    base: np.ndarray
    forest: Forest
    n_features: int
    link: str = "softmax"
    temperature: float = 1.0
    columns: tuple[str, ...] = ()
    calibration: float = 1.0

    def __post_init__(self) -> None:
        if self.link not in ("softmax", "sigmoid"):
            raise DataError(
                f"the committee has the link {self.link!r}: its probabilities are an eigenvector, "
                "which neither ONNX nor LightGBM can express; export it as safetensors, or train "
                "it without cost_matrix"
            )
