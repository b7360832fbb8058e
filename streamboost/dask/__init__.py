"""Training on the workers of a Dask cluster: `pip install streamboost[dask]`.

>>> from streamboost.dask import DaskSketchLogitBoostClassifier
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamboost.dask.classifier import (
        DaskSketchLogitBoostClassifier as DaskSketchLogitBoostClassifier,
    )

__all__ = ["DaskSketchLogitBoostClassifier"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'streamboost.dask' has no attribute {name!r}")
    from streamboost.dask.classifier import DaskSketchLogitBoostClassifier

    return DaskSketchLogitBoostClassifier
