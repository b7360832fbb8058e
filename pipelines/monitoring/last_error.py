"""Last error of a pipeline, stored in a file for `streamboost inspect`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from streamboost.errors import StreamBoostError
from streamboost.pipelines.runner.observers import Observer
from streamboost.storage import write_bytes


class ErrorRecord(msgspec.Struct, frozen=True):
    """Error text with its time (UTC, ISO 8601) and the number of the newest batch."""

    time: str
    sequence: int
    text: str


class LastErrorFile(Observer):
    """Observer that stores the last error in a file.

    Parameters
    ----------
    path : the file
    mask : removes secrets from a text
    sequence : returns the number of the newest batch
    """

    def __init__(self, path: Path, mask: Callable[[str], str], sequence: Callable[[], int]) -> None:
        self.sequence = sequence
        self._path = path
        self._mask = mask

    def on_error(self, text: str) -> None:
        """Store an error in the file; a failed write is ignored, as the log has the error too."""
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        trouble = ErrorRecord(time, self.sequence(), self._mask(text))
        with suppress(OSError, StreamBoostError):
            write_bytes(self._path, msgspec.json.encode(trouble))

    @contextmanager
    def record_errors(self) -> Iterator[None]:
        """Context manager that stores an exception of its body, and raises the exception again."""
        try:
            yield
        except Exception as error:
            self.on_error(error_text(error))
            raise


def error_text(error: Exception) -> str:
    """Return the text of an exception, with the type of an unexpected one."""
    is_expected = isinstance(error, StreamBoostError)
    return str(error) if is_expected else f"{type(error).__name__}: {error}"


def read_last_error(path: Path) -> ErrorRecord | None:
    """Return the error stored in the file `path`; None if the file is missing or unreadable."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ErrorRecord)
    except (OSError, msgspec.MsgspecError):
        return None
