"""Datasets that come with River."""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from streamboost.connectors.base import Source
from streamboost.connectors.river import RiverOracle as Oracle
from streamboost.connectors.river import RiverSource
from streamboost.pipelines.endpoints.base import Connector, Input, Output, Surroundings, Text

__all__ = ["CONNECTOR", "RiverInput", "RiverOracle"]


class RiverInput(Input):
    """The records of a dataset that comes with River."""

    connector: Literal["river"]
    dataset: Text = Field(description="the dataset's class in river.datasets")

    @property
    def closed(self) -> str:
        """Why nothing can be appended to it."""
        return "its dataset cannot be added to"

    def problems(self) -> Iterator[tuple[str, str]]:
        """See that nobody names the fields of what River's datasets give as labels."""
        if self.fields is not None:
            yield "fields", "a dataset gives labels with an id and a label: leave this out"

    def place(self, around: Surroundings) -> None:
        """Return None: nothing else is in a dataset."""

    def source(self, around: Surroundings) -> Source:
        """Return what reads the records."""
        return RiverSource(self.dataset)


class RiverOracle(RiverInput):
    """Answers every request with the dataset's label, `delay` records later."""

    delay: int = Field(0, ge=0, description="records that pass before a label comes")

    @property
    def listens_to(self) -> tuple[str, ...]:
        """The requests, which it answers."""
        return ("requests",)

    @property
    def unit(self) -> str:
        """What a position counts: it is one in the requests."""
        return "requests"

    def answers(
        self, around: Surroundings, records: Source, outputs: Mapping[str, Output]
    ) -> Source:
        """Return what answers the requests as `records` go on."""
        return Oracle(self.dataset, outputs["requests"].follower(around), self.delay, records)


CONNECTOR = Connector(RiverInput, RiverOracle)
