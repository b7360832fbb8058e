"""Sections of the river connector: River's datasets as records, and as an oracle."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pydantic import Field

from streamboost.connectors.base import Source
from streamboost.connectors.river import RiverOracle, RiverSource
from streamboost.pipelines.config.connectors.base import (
    ConnectorContext,
    ConnectorSections,
    Input,
    Output,
    Text,
)


class RiverInput(Input):
    """Records of a dataset of River."""

    connector: Literal["river"]
    dataset: Text = Field(description="class of the dataset in river.datasets")

    read_only_reason: ClassVar[str] = "a dataset is complete"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield a problem if `fields` is set: a dataset always names these `id` and `label`."""
        if self.fields is not None:
            yield "fields", "labels of a dataset always have the fields id and label: delete this"

    def location(self, context: ConnectorContext) -> None:
        """Return None, as no other section can use the location of a dataset."""

    def create_source(self, context: ConnectorContext) -> Source:
        """Return a source that reads the records of the dataset."""
        return RiverSource(self.dataset)


class RiverOracleSection(RiverInput):
    """Oracle that answers each request with the dataset's label, `delay` records later."""

    delay: int = Field(0, ge=0, description="delay of a label, in records")

    outputs_read_by_oracle: ClassVar[tuple[str, ...]] = ("requests",)
    position_unit: ClassVar[str] = "requests"

    def create_label_source(
        self, context: ConnectorContext, records: Source, outputs: Mapping[str, Output]
    ) -> Source:
        """Return the oracle, whose labels come after `delay` more messages of `records`."""
        return RiverOracle(
            self.dataset, outputs["requests"].create_tailing_source(context), self.delay, records
        )


CONNECTOR = ConnectorSections(RiverInput, RiverOracleSection)
