"""Which features made a prediction, by the committee that made it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.errors import DataError

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["why"]

NAMED = 10
"""Features named, of each record: those that did most."""

CLASSES = 8
"""Classes for which is told what they did: the likeliest."""


def why(
    committee: "Committee", x: np.ndarray, columns: Sequence[str], said: Mapping[str, float | None]
) -> dict[str, Any] | None:
    """Return what each feature did to the score of each of the likeliest classes.

    `x` (D,) is the row, whose columns are called so, `said` the probabilities by class. None where
    the committee cannot tell.
    """
    try:
        owed = committee.contributions(x[None, : committee.n_features])[0]
    except DataError:
        return None
    classes = [str(label) for label in committee.classes.tolist()]
    likely = sorted(range(len(classes)), key=lambda k: -(said.get(classes[k]) or 0.0))[:CLASSES]
    effect = np.abs(
        owed[likely[0], :-1] - owed[likely[1], :-1] if len(likely) > 1 else owed[0, :-1]
    )
    ordered = np.argsort(-effect, kind="stable")
    most, rest = ordered[:NAMED], np.sort(ordered[NAMED:])
    return {
        "classes": [classes[k] for k in likely],
        "features": [[columns[d], *owed[likely, d].round(4).tolist()] for d in most.tolist()],
        "n_others": len(rest),
        "others": owed[likely][:, rest].sum(axis=1).round(4).tolist(),
        "base": owed[likely, -1].round(4).tolist(),
    }
