"""Section of inline labels, which arrive among the records."""

from typing import ClassVar, Literal

from streamboost.connectors.base import Message, SinglePartitionSource, Source
from streamboost.pipelines.config.connectors.base import ConnectorContext, ConnectorSections, Input


class InlineLabels(Input):
    """Labels in messages of [source]: of an earlier record, or of the message's own record."""

    connector: Literal["inline"]

    read_only_reason: ClassVar[str] = (
        "its labels are messages of [source]: write labels to that source"
    )

    def location(self, context: ConnectorContext) -> None:
        """Return None, as the labels have the location of [source]."""

    def create_source(self, context: ConnectorContext) -> Source:
        """Return an empty source, as the source of records reads all messages."""
        return _EmptySource("the labels among the records")


class _EmptySource(SinglePartitionSource):
    def poll(self, limit: int) -> list[Message]:
        return []

    def lag(self) -> int:
        return 0


CONNECTOR = ConnectorSections(labels=InlineLabels)
