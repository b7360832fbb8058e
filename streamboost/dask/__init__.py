"""Training on the workers of a Dask cluster: `pip install streamboost[dask]`.

>>> from streamboost.dask import DaskSketchLogitBoostClassifier
"""

from streamboost.dask.classifier import DaskSketchLogitBoostClassifier

__all__ = ["DaskSketchLogitBoostClassifier"]
