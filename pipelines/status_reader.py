"""`StatusReader` under the name that release 0.1 documented."""

from streamboost.pipelines.status.reader import StatusReader

__all__ = ["StatusReader"]
