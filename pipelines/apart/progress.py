"""What a scorer says of a batch of one partition: where it goes on, what it knows, what it asked.

Entries are read by whoever takes the partition over, and by the learner, to whom they bring the
records that were asked about and the sums of the others. The newest of each partition holds for
ever, under a key.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamboost.active.query import Requests
from streamboost.connectors.messages.written import Time
from streamboost.errors import StateError
from streamboost.pipelines.engine.batch import Messages
from streamboost.stream.checks import Label, as_array
from streamboost.stream.evaluation.tally import Rest
from streamboost.stream.scoring import Scored

__all__ = ["KEY", "Asked", "Progress", "Step", "requests_of"]

KEY = b"progress"

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """A record whose label was asked for, as it was predicted.

    Attributes
    ----------
    id, time
        The record's.
    offset
        Where it stands in its partition.
    values
        Those of its fields in the order of the schema.
    label, probabilities, margin
        What was predicted; the probabilities are those of the entry's classes.
    utility, propensity, audit, rule
        Why it was asked: see `Requests`.
    """

    id: str
    time: Time
    offset: int
    values: list[Any]
    label: Label | None
    probabilities: list[float]
    margin: float
    utility: float
    propensity: float
    audit: bool
    rule: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """A batch of one partition.

    Attributes
    ----------
    sequence
        The batch's number in its partition; the first is 1.
    start, end
        The offsets [start, end) that it read.
    records
        How many records were predicted.
    dead
        How many messages were none.
    edition
        What it was predicted by: the learner's batch that published it.
    version, temperature, classes
        The committee, by what its log probabilities were divided, and the classes of what it says.
    tick
        The scorer's clock, in milliseconds since the epoch.
    worker
        Who did it: host, process and a token.
    lag
        Messages there were still to be read.
    querier
        What `Querier.state` gave, but for the window.
    window
        The offset of the oldest record among whose utilities the next is ranked.
    sums
        Those of the records that nobody asked about (`Rest`), in base64.
    asked
        The others.
    digest
        Chains what the partition's batches wrote.
    topic
        What tells the topic of the records from another of its name, where the broker says so.
    gap
        Offsets [start, end) before it that were deleted before anybody read them.
    unknown
        How many records had a value in each field that the schema does not know.
    """

    sequence: int
    start: int
    end: int
    records: int
    dead: int
    edition: int
    version: int
    temperature: float
    classes: list[Label]
    tick: int
    worker: str
    lag: int
    querier: dict[str, Any]
    window: int
    sums: str
    asked: list[Asked]
    digest: str
    topic: str | None = None
    gap: list[int] | None = None
    unknown: dict[str, int] = field(default_factory=dict)
    format: int = field(default=_FORMAT)

    def encode(self) -> bytes:
        """Return it as JSON, in which generators have whole numbers of 128 bits."""
        return json.dumps(self, separators=(",", ":"), default=_plain).encode()

    @classmethod
    def decode(cls, payload: bytes, where: str) -> "Progress":
        """Read what `encode` wrote; StateError where this release cannot."""
        try:
            found = json.loads(payload)
            if found["format"] != _FORMAT:
                raise ValueError(f"its format is {found['format']!r}, and this reads {_FORMAT}")
            return cls(**found | {"asked": [Asked(**one) for one in found["asked"]]})
        except (ValueError, TypeError, LookupError) as error:
            raise StateError(
                f"{where} is no entry of a scorer's progress: {error!r}; only scorers may write "
                "there, of the same release as this"
            ) from error

    def rest(self) -> Rest:
        """Return the sums of the records that nobody asked about."""
        return Rest.unpack(self.classes, base64.b64decode(self.sums))

    def scored(self, asked: Sequence[Asked]) -> Scored:
        """Return what was predicted of records that it `asked` about."""
        labels = np.empty(len(asked), dtype=object)
        labels[:] = [one.label for one in asked]
        P = np.array([one.probabilities for one in asked], dtype=np.float64)
        return Scored(
            labels,
            as_array(self.classes),
            P.reshape(len(asked), len(self.classes)),
            np.array([one.margin for one in asked]),
            self.version,
            self.temperature,
        )


def requests_of(asked: Sequence[Asked]) -> Requests:
    """Return why records were asked about."""
    return Requests(
        ids=[one.id for one in asked],
        utility=np.array([one.utility for one in asked], dtype=np.float64),
        propensity=np.array([one.propensity for one in asked], dtype=np.float64),
        audit=np.array([one.audit for one in asked], dtype=bool),
        rule=np.array([one.rule for one in asked], dtype=bool),
    )


@dataclass(frozen=True, slots=True)
class Step:
    """What one batch of a partition comes to."""

    messages: Messages
    entry: bytes
    end: int
    records: int


def _plain(value: Any) -> Any:
    """Give JSON the Python value of a NumPy scalar, and the fields of an entry."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Progress | Asked):
        return {name: getattr(value, name) for name in value.__slots__}
    raise TypeError(f"a {type(value).__name__} cannot stand in an entry")
