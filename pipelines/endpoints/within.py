"""Labels that come among the records."""

from typing import Literal

from streamboost.connectors.base import Message, SinglePartitionSource, Source
from streamboost.pipelines.endpoints.base import Connector, Input, Surroundings

__all__ = ["CONNECTOR", "LabelsWithin"]


class LabelsWithin(Input):
    """Messages of [source] that have a label: of a record that came before, or of their own."""

    connector: Literal["records"]

    @property
    def closed(self) -> str:
        """Why nothing can be appended to it."""
        return "labels come among the records, whose source is to be written to"

    def place(self, around: Surroundings) -> None:
        """Return None: the records' place is that of [source]."""

    def source(self, around: Surroundings) -> Source:
        """Return a source of nothing: all that comes is read by the records'."""
        return _Nothing("the labels among the records")


class _Nothing(SinglePartitionSource):
    """A source in which there is nothing, ever."""

    def poll(self, limit: int) -> list[Message]:
        """Return nothing."""
        return []

    def lag(self) -> int:
        """Return 0."""
        return 0


CONNECTOR = Connector(labels=LabelsWithin)
