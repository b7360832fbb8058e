"""Labels find their records."""

from streamboost.pipelines.engine.join.join import Join

__all__ = ["Join"]
