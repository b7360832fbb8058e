"""Login sessions, one file each; deleting a file logs that browser out at once.

Sessions survive a restart of `serve`, and several processes with one state folder share them.
"""

import hashlib
import hmac
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_urlsafe
from typing import Literal

import msgspec

from streamboost.errors import ModelFileError, StateError
from streamboost.pipelines.service.auth.names import comparison_key
from streamboost.storage import write_bytes

Role = Literal["annotator", "operator", "scorer"]
"""An annotator reads and labels, a scorer requests predictions, and an operator has all rights."""

SESSION_SECONDS = 7 * 24 * 3600
"""Lifetime of a session in seconds."""


class Session(msgspec.Struct, frozen=True):
    """A login session: user, role, session id (`seat`), and expiry (seconds since 1970)."""

    name: str
    role: Role
    seat: str
    until: float


class Sessions:
    """Store of the sessions in `folder`, created on demand; safe for threads and processes.

    Parameters
    ----------
    folder : folder of the session files, readable only by its owner
    secret : key of the file names (HMAC), so that a new secret invalidates all sessions
    clock : current time, in seconds since 1970
    """

    def __init__(self, folder: Path, secret: bytes, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._secret = secret
        self._clock = clock

    def create_session(self, name: str, role: Role) -> str:
        """Create a session and return its cookie; raises StateError if the write fails."""
        cookie = token_urlsafe(32)
        session = Session(name, role, token_urlsafe(12), self._clock() + SESSION_SECONDS)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for file, old in self._files_and_sessions():
                if old.until <= self._clock():
                    file.unlink(missing_ok=True)
            write_bytes(self._session_file(cookie), msgspec.json.encode(session))
        except (OSError, ModelFileError) as error:
            raise StateError(f"the login failed: {error}; free space on the disk") from error
        return cookie

    def find_session(self, cookie: str) -> Session | None:
        """Return the session of a cookie; None if it has ended or expired."""
        session = _read_session(self._session_file(cookie))
        return None if session is None or session.until <= self._clock() else session

    def end_session(self, cookie: str) -> None:
        """End the session of this cookie."""
        self._session_file(cookie).unlink(missing_ok=True)

    def end_user_sessions(self, name: str) -> int:
        """End all sessions of the user `name`; return their number."""
        key = comparison_key(name)
        found = [
            file
            for file, session in self._files_and_sessions()
            if comparison_key(session.name) == key
        ]
        for file in found:
            file.unlink(missing_ok=True)
        return len(found)

    def valid_sessions(self) -> list[Session]:
        """Return the valid sessions, sorted by user name."""
        found = [
            session for _, session in self._files_and_sessions() if session.until > self._clock()
        ]
        return sorted(found, key=lambda session: (session.name, session.until))

    def _files_and_sessions(self) -> Iterator[tuple[Path, Session]]:
        with suppress(FileNotFoundError):
            for file in sorted(self._folder.iterdir()):
                if (session := _read_session(file)) is not None:
                    yield file, session

    def _session_file(self, cookie: str) -> Path:
        # The file name is a hash, so that a listing reveals no cookie, and a cookie is no path.
        given = cookie.encode("utf-8", "surrogatepass")
        return self._folder / hmac.new(self._secret, given, hashlib.sha256).hexdigest()


def _read_session(file: Path) -> Session | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Session)
    except (OSError, msgspec.MsgspecError):
        return None
