"""The newest thing that went wrong, kept where `streamboost inspect` finds it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from streamboost.errors import StreamBoostError
from streamboost.pipelines.engine.watchers import Watcher
from streamboost.storage import write_bytes

__all__ = ["LastError", "Trouble", "last_trouble"]


class Trouble(msgspec.Struct, frozen=True):
    """What went wrong, when (UTC, ISO 8601), and after which batch."""

    time: str
    sequence: int
    text: str


class LastError(Watcher):
    """Writes down what goes wrong, each in place of the one before.

    Parameters
    ----------
    path : the file
    mask : takes secrets out of a text
    sequence : tells the newest batch
    """

    def __init__(self, path: Path, mask: Callable[[str], str], sequence: Callable[[], int]) -> None:
        self.sequence = sequence
        self._path = path
        self._mask = mask

    def trouble(self, text: str) -> None:
        """Write it down; where that cannot be done, the log alone has it."""
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        trouble = Trouble(time, self.sequence(), self._mask(text))
        with suppress(OSError, StreamBoostError):
            write_bytes(self._path, msgspec.json.encode(trouble))

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Write down the error that ends what is done within."""
        try:
            yield
        except StreamBoostError as error:
            self.trouble(str(error))
            raise
        except Exception as error:
            self.trouble(f"{type(error).__name__}: {error}")
            raise


def last_trouble(path: Path) -> Trouble | None:
    """Return what was written down last, None where nothing was or it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Trouble)
    except (OSError, msgspec.MsgspecError):
        return None
