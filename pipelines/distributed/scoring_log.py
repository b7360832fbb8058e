"""Scoring log: one entry for each scored batch of a partition, with offsets, state and requests.

The log is a compacted changelog topic, as in Kafka Streams. After a rebalance, the new scorer of a
partition restores the task from the newest entry. The learner reads all entries, which have the
requested records, and sums over the records without a request.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamboost.checks import Label, labels_to_array
from streamboost.connectors.messages.outgoing import Time
from streamboost.errors import StateError
from streamboost.evaluation.sufficient_stats import UnlabelledSums
from streamboost.pipelines.runner.batch import OutputMessages
from streamboost.predictions import Scored
from streamboost.query.config import Requests

KEY = b"progress"

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class RequestEntry:
    """Log entry of one label request, with the record and its prediction.

    Attributes
    ----------
    id, time : id and timestamp of the record
    offset : offset of the record in its partition
    values : field values in the order of the schema
    label, probabilities, margin : prediction of the learner; the probabilities are in the order of
        the entry's classes
    utility, propensity, audit, selected : reason of the request: see `Requests`
    recorded : prediction of another system: pairs of a class and its probability, or None for a
        label alone. Empty: no valid prediction.
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
    selected: bool
    recorded: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ScoringLogEntry:
    """Log entry of one batch of a partition.

    Attributes
    ----------
    sequence : number of the batch in its partition; the first is 1
    start, end : offsets [start, end) that the batch read
    records : number of predicted records
    dead : number of dead letters
    edition : number of the model snapshot: the learner's batch that published the snapshot
    version, temperature, classes : version of the committee, divisor of its log probabilities, and
        classes of the predictions
    tick : processing time of the scorer, in milliseconds since the epoch
    worker : scorer process: host, process id and a random token
    lag : number of unread messages of the partition
    querier : state of the querier (`Querier.state`) without the utility window
    window : offset of the oldest record in the utility window
    sums : sums over the records without a request (`UnlabelledSums`), in base64
    asked : requests of the batch
    digest : hash chained over the output of the partition's batches
    topic : id of the records topic, if the broker reports one
    gap : offsets [start, end) before the batch that were deleted before they were read
    unknown : for each field that the schema does not have, the number of records with a value
    recorded : counts of another system's predictions (`RecordedPredictions.to_json`)
    sums_classes : classes of `sums`, if they are about another system's predictions; None:
        `classes`
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
    asked: list[RequestEntry]
    digest: str
    topic: str | None = None
    gap: list[int] | None = None
    unknown: dict[str, int] = field(default_factory=dict)
    recorded: dict[str, int] = field(default_factory=dict)
    sums_classes: list[Label] | None = None
    format: int = field(default=_FORMAT)

    def encode(self) -> bytes:
        """Return the entry as JSON, in which random generator states have 128-bit integers."""
        return json.dumps(self, separators=(",", ":"), default=_to_json_value).encode()

    @classmethod
    def decode(cls, payload: bytes, location: str) -> "ScoringLogEntry":
        """Decode an entry; raise StateError, with `location`, if `payload` is no valid entry."""
        try:
            found = json.loads(payload)
            if found["format"] != _FORMAT:
                raise ValueError(f"its format is {found['format']!r}, and this reads {_FORMAT}")
            return cls(**found | {"asked": [RequestEntry(**one) for one in found["asked"]]})
        except (ValueError, TypeError, LookupError) as error:
            raise StateError(
                f"{location} is not a valid scoring log entry: {error!r}; only scorers of this "
                "release may write to the topic"
            ) from error

    def decode_sums(self) -> UnlabelledSums:
        """Decode `sums`, the statistics for the estimates of the records without a request."""
        classes = self.classes if self.sums_classes is None else self.sums_classes
        return UnlabelledSums.unpack(classes, base64.b64decode(self.sums))

    def request_predictions(self, requests: Sequence[RequestEntry]) -> Scored:
        """Return the stored predictions of the records in `requests`, as arrays."""
        labels = np.empty(len(requests), dtype=object)
        labels[:] = [one.label for one in requests]
        P = np.array([one.probabilities for one in requests], dtype=np.float64)
        return Scored(
            labels,
            labels_to_array(self.classes),
            P.reshape(len(requests), len(self.classes)),
            np.array([one.margin for one in requests]),
            self.version,
            self.temperature,
        )


def requests_from_entries(entries: Sequence[RequestEntry]) -> Requests:
    """Convert log entries to `Requests`, with utilities and inclusion probabilities as arrays."""
    return Requests(
        ids=[one.id for one in entries],
        utility=np.array([one.utility for one in entries], dtype=np.float64),
        propensity=np.array([one.propensity for one in entries], dtype=np.float64),
        audit=np.array([one.audit for one in entries], dtype=bool),
        selected=np.array([one.selected for one in entries], dtype=bool),
    )


@dataclass(frozen=True, slots=True)
class ScoringStepResult:
    """Result of one batch: messages, encoded log entry, next offset, and number of records."""

    messages: OutputMessages
    entry: bytes
    end: int
    records: int


def _to_json_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, ScoringLogEntry | RequestEntry):
        return {name: getattr(value, name) for name in value.__slots__}
    raise TypeError(f"a {type(value).__name__} cannot stand in an entry")
