"""Scoring of Spark data frames and streams: `pip install streamboost[spark]`.

>>> from streamboost.spark import score
"""

from streamboost.spark.scoring import score

__all__ = ["score"]
