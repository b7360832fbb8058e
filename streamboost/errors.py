"""Everything streamboost raises on purpose.

::

    StreamBoostError
    ├── ConfigurationError    a setting is wrong; also a ValueError
    ├── DataError             records or arrays cannot be used; also a ValueError
    ├── ModelFileError        a model or snapshot file cannot be trusted
    ├── LostWorkerError       a worker died in a training that cannot go on without its rows
    ├── StateError            a pipeline's saved state does not fit what is asked of it
    │   └── GapError          what a replay needs of journal, records or labels is gone
    └── ConnectorError        a source or sink failed
        ├── DeletedError      what should be read was deleted, or is not what was read before
        └── UnavailableError  the same, and trying again may succeed

Each message says what was wrong, where, the value, and how to mend it.
"""

from typing import ClassVar

__all__ = [
    "ConfigurationError",
    "ConnectorError",
    "DataError",
    "DeletedError",
    "GapError",
    "LostWorkerError",
    "ModelFileError",
    "StateError",
    "StreamBoostError",
    "UnavailableError",
]


class StreamBoostError(Exception):
    """Base of everything streamboost raises on purpose."""

    retriable: ClassVar[bool] = False
    """Whether the same call may succeed later without anybody changing anything."""


class ConfigurationError(StreamBoostError, ValueError):
    """A setting is wrong."""


class DataError(StreamBoostError, ValueError):
    """Records or arrays cannot be used."""


class ModelFileError(StreamBoostError):
    """A model or snapshot file cannot be trusted."""


class LostWorkerError(StreamBoostError):
    """A worker died in a training that cannot go on without its rows."""

    retriable = True


class StateError(StreamBoostError):
    """A pipeline's saved state does not fit what is asked of it."""


class GapError(StateError):
    """What a replay needs of journal, records or labels is gone."""


class ConnectorError(StreamBoostError):
    """A source or sink failed."""


class DeletedError(ConnectorError):
    """What should be read was deleted, or is not what was read before."""


class UnavailableError(ConnectorError):
    """A source or sink failed in a way that may pass: trying again may succeed."""

    retriable = True
