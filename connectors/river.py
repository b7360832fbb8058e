"""River's datasets as streams: a source of their records, and an oracle with delayed labels.

`river` is imported when a dataset is opened, because the import takes a second.
"""

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import islice
from typing import Any

import msgspec

from streamboost.connectors.base import PARTITION, Message, SinglePartitionSource, Source
from streamboost.connectors.messages.outgoing import Label
from streamboost.connectors.request_log import RequestAnsweringSource
from streamboost.errors import ConfigurationError, ConnectorError

__all__ = ["RiverOracle", "RiverSource", "dataset_names"]

_TASKS = ("Binary classification", "Multi-class classification")


@cache
def dataset_names() -> tuple[str, ...]:
    """Return the names of River's classification datasets.

    >>> "ImageSegments" in dataset_names()
    True
    """
    from river import datasets

    found = []
    for name in datasets.__all__:
        kind = getattr(datasets, name)
        if isinstance(kind, type) and kind().task in _TASKS:
            found.append(name)
    return tuple(found)


def _open_dataset(name: str) -> Any:
    """Return a dataset of River, an iterable of (features, label); ConfigurationError if absent."""
    from river import datasets

    known = dataset_names()
    if name not in known:
        near = get_close_matches(name, known, n=1, cutoff=0.0)
        raise ConfigurationError(
            f"River has no classification dataset {name!r}: perhaps {near[0]!r} is meant; "
            f"there are {', '.join(known)}"
        )
    data = getattr(datasets, name)()
    if not getattr(data, "is_downloaded", True):
        raise ConfigurationError(
            f"River's dataset {name!r} is not on this machine: fetch it with "
            f'`python -c "from river import datasets; datasets.{name}().download()"`'
        )
    return data


class RiverSource(SinglePartitionSource):
    """Reads a dataset's records in order: `{"id": "0", ...features}`, with offsets from 0.

    A record's id is its index. Labels are not included: see `RiverOracle`.

    Raises ConfigurationError for a dataset that River does not have, or has not downloaded.

    >>> source = RiverSource("Bananas")
    >>> source.poll(1)[0].payload
    b'{"id":"0","1":1.617466,"2":-0.919233}'
    >>> source.position()
    {'0': 1}
    """

    def __init__(self, dataset: str) -> None:
        super().__init__(f"River's {dataset}")
        self._data: Iterable[tuple[dict[Any, Any], Any]] = _open_dataset(dataset)
        self._items: Iterator[tuple[dict[Any, Any], Any]] | None = None

    def poll(self, limit: int) -> list[Message]:
        """Return at most `limit` records as messages."""
        if self._items is None:
            self._items = self._iterate_items_from(self._next)
        messages = []
        for offset, (features, _) in enumerate(islice(self._items, max(0, limit)), self._next):
            record = {"id": None} | {str(name): value for name, value in features.items()}
            payload = msgspec.json.encode(record | {"id": str(offset)}, enc_hook=str)
            messages.append(Message(payload, PARTITION, offset, len(payload)))
        self._next += len(messages)
        return messages

    def _set_next_offset(self, offset: int) -> None:
        super()._set_next_offset(offset)
        self._items = None

    def _iterate_items_from(self, index: int) -> Iterator[tuple[dict[Any, Any], Any]]:
        items = iter(self._data)
        passed = sum(1 for _ in islice(items, index))
        if passed < index:
            raise ConnectorError(
                f"{self.where} has {passed} records, and reading should continue "
                f"at {index}: the position is from another dataset; start again with an empty state"
            )
        return items


class _RequestedRecord(msgspec.Struct):
    id: str


class RiverOracle(RequestAnsweringSource):
    """Source of labels for requested records, taken from a dataset, with a delay.

    Its messages are the answers, `{"id": ..., "label": ...}`, one for each request. There is no
    state except the position. A label that is not text is returned as its JSON text: `true`, `3`.

    Parameters
    ----------
    dataset : str
        Name of the dataset with the labels; the ids of its records are their indices.
    requests : Source
        The log of requests, for the exclusive use of the oracle.
    delay : int
        Number of records that must be read after a record before its label is returned.
    progress : Source
        The source of the records, whose offsets must count records. This is true for all sources
        except text files.

    Examples
    --------
    >>> from streamboost.connectors.memory import MemoryLog, MemorySource
    >>> records, requests = RiverSource("ImageSegments"), MemoryLog()
    >>> oracle = RiverOracle("ImageSegments", MemorySource(requests), 20, records)
    >>> requests.append([b'{"id": "3"}'])
    >>> len(records.poll(23)), len(oracle.poll(10))
    (23, 0)
    >>> len(records.poll(1)), oracle.poll(10)[0].payload
    (1, b'{"id":"3","label":"path"}')
    """

    def __init__(self, dataset: str, requests: Source, delay: int, progress: Source) -> None:
        if delay < 0:
            raise ConfigurationError(f"delay = {delay}: write a number of records, 0 or more")
        super().__init__(requests)
        self._dataset = dataset
        self._delay = delay
        self._progress = progress
        self._decoder = msgspec.json.Decoder(_RequestedRecord)
        self._labels: list[str] = []
        self._ahead = iter(_open_dataset(dataset))

    def _append_due_answers(self, requests: Sequence[Message], answers: list[Message]) -> int:
        records = sum(self._progress.position().values())
        for passed, request in enumerate(requests):
            record = self._decode_record_index(request)
            if int(record) + self._delay >= records:
                return passed
            payload = Label(record, self._label_of_record(int(record))).encode()
            answers.append(Message(payload, request.partition, request.offset, len(payload)))
        return len(requests)

    def _decode_record_index(self, request: Message) -> str:
        try:
            record = self._decoder.decode(request.payload).id
            if int(record) < 0:
                raise ValueError(f"{record} is negative")
        except (msgspec.MsgspecError, ValueError) as error:
            raise ConnectorError(
                f"the request at offset {request.offset} of partition {request.partition!r} does "
                f"not name a record of River's {self._dataset} by its index: {error}; let "
                "the oracle answer only requests for that dataset's records"
            ) from error
        return record

    def _label_of_record(self, index: int) -> str:
        missing = index + 1 - len(self._labels)
        if missing > 0:
            self._labels += [_label_to_text(label) for _, label in islice(self._ahead, missing)]
        if index >= len(self._labels):
            raise ConnectorError(
                f"River's {self._dataset} has {len(self._labels)} records, and a request "
                f"names record {index}: the requests are for another dataset's records"
            )
        return self._labels[index]


def _label_to_text(label: Any) -> str:
    return label if isinstance(label, str) else msgspec.json.encode(label, enc_hook=str).decode()
