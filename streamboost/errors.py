"""Exceptions that streamboost raises.

::

    StreamBoostError
    ├── ConfigurationError    a setting is invalid; also a ValueError
    ├── DataError             records or arrays are invalid; also a ValueError
    ├── ModelFileError        a model or snapshot file is invalid, or cannot be written
    ├── LostWorkerError       a worker died, and its rows are missing in a training
    ├── StateError            a saved state does not fit the command or the settings
    │   └── GapError          journal, records or labels for a replay are missing
    └── ConnectorError        a source or sink failed
        ├── DeletedError      the data was deleted, or is not the data read before
        └── UnavailableError  a source or sink failed, and a retry may succeed

Each message says what failed, where, the value, and the remedy.
"""

from typing import ClassVar


class StreamBoostError(Exception):
    """Base class of all exceptions that streamboost raises."""

    retriable: ClassVar[bool] = False
    """Whether a retry of the same call may succeed without any change."""


class ConfigurationError(StreamBoostError, ValueError):
    """A setting is invalid."""


class DataError(StreamBoostError, ValueError):
    """Records or arrays are invalid."""


class ModelFileError(StreamBoostError):
    """A model or snapshot file is missing or invalid, or cannot be written."""


class LostWorkerError(StreamBoostError):
    """A worker died, and its rows are missing in a training."""

    retriable = True


class StateError(StreamBoostError):
    """The saved state of a pipeline does not fit the command or the settings."""


class GapError(StateError):
    """Journal, records or labels that a replay needs are missing."""


class ConnectorError(StreamBoostError):
    """A source or sink failed."""


class DeletedError(ConnectorError):
    """The data to be read was deleted, or is not the data that was read before."""


class UnavailableError(ConnectorError):
    """A source or sink failed temporarily: a retry may succeed."""

    retriable = True
