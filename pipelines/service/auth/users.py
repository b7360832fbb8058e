"""Users and their roles, authenticated by a token, a one-time login link or a session cookie.

A person opens a login link; the browser then stores a cookie for a session on the server. A program
sends the token with each request.
"""

import hashlib
import hmac
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_urlsafe

from streamboost.errors import DataError
from streamboost.pipelines.service.auth.names import comparison_key, validated_name
from streamboost.pipelines.service.auth.sessions import Role, Session, Sessions

_LINK_SECONDS = 24 * 3600
_MOST_LINKS = 1_000


@dataclass(frozen=True, slots=True)
class User:
    """An authenticated user: the `name` is stored with each label, the `seat` is the session id.

    Two sessions never lease the same record, even with the same name.
    """

    name: str
    seat: str
    role: Role = "annotator"

    @property
    def may_score(self) -> bool:
        """Whether the user may request predictions: an operator or a scoring program."""
        return self.role in ("operator", "scorer")


PROGRAM = User("api", "api", "operator")
"""User of requests with the token."""

SCORER = User("scorer", "scorer", "scorer")
"""User of requests with the token for predictions only."""


@dataclass(frozen=True, slots=True)
class _PendingLoginLink:
    """Unused login link of a user; `until` is its expiry, in seconds of the monotonic clock."""

    until: float
    name: str
    role: Role


class Users:
    """Authenticator by token, login link or session cookie; thread-safe.

    Parameters
    ----------
    token : the secret of programs, also the key of the session files
    folder : folder of the sessions
    scorer : the secret of programs that only request predictions; None: no such programs
    clock : monotonic clock in seconds, for the expiry of login links
    wall_clock : seconds since 1970, for the expiry of sessions

    Attributes
    ----------
    annotators : returns the names of all annotators, possibly in several spellings

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> people = Users("a secret", Path(mkdtemp()))
    >>> key = people.create_login_link("ann", "annotator")
    >>> cookie = people.log_in(key)
    >>> people.authenticate_cookie(cookie).name
    'ann'
    >>> people.log_in(key) is None, people.authenticate_cookie("forged") is None
    (True, True)
    """

    def __init__(
        self,
        token: str,
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        *,
        scorer: str | None = None,
    ) -> None:
        self._token = token.encode()
        self._scorer = None if scorer is None else scorer.encode()
        self.annotators: Callable[[], Iterable[str]] = tuple
        self._clock = clock
        self._links: dict[str, _PendingLoginLink] = {}
        self._lock = threading.Lock()
        self._sessions = Sessions(folder, self._token, wall_clock)

    def create_login_link(self, name: str, role: Role) -> str:
        """Create a one-time login link for `name`, valid for a day, and return its key.

        Raises DataError if the name is not allowed.
        """
        name = self.canonical_name(name)
        if comparison_key(name) == PROGRAM.name:
            raise DataError(f"the name {name!r} is reserved for programs: give another name")
        key = token_urlsafe(32)
        now = self._clock()
        with self._lock:
            self._links = {k: link for k, link in self._links.items() if link.until > now}
            while len(self._links) >= _MOST_LINKS:
                del self._links[next(iter(self._links))]
            self._links[_key_hash(key)] = _PendingLoginLink(now + _LINK_SECONDS, name, role)
        return key

    def canonical_name(self, raw_name: str) -> str:
        """Return the stored spelling of a person's name, or the name itself if it is new.

        Names that differ only in case, width or spaces belong to one person. A spelling that is
        known itself is returned unchanged.

        Raises DataError if the name is not allowed.
        """
        name = validated_name(raw_name)
        key = comparison_key(name)
        names = {link.name for link in list(self._links.values())}
        names |= {session.name for session in self._sessions.valid_sessions()} | {
            *self.annotators()
        }
        if name in names:
            return name
        return min((one for one in names if comparison_key(one) == key), default=name)

    def find_pending_login(self, key: str) -> tuple[str, Role] | None:
        """Return name and role of a login link's `key`; None if it was used or has expired."""
        link = self._links.get(_key_hash(key))
        return None if link is None or link.until <= self._clock() else (link.name, link.role)

    def log_in(self, key: str) -> str | None:
        """Create a session for the `key` of a login link and return its cookie; None: invalid key.

        Raises StateError if the session cannot be stored; the key stays valid in this case.
        """
        with self._lock:
            found = self.find_pending_login(key)
            if found is None:
                return None
            cookie = self._sessions.create_session(*found)
            del self._links[_key_hash(key)]
        return cookie

    def log_out(self, cookie: str) -> None:
        """End the session of this cookie."""
        self._sessions.end_session(cookie)

    def log_out_user(self, name: str) -> int:
        """End all sessions and unused login links of `name`; return their number."""
        key = comparison_key(name)
        with self._lock:
            links = {k: link for k, link in self._links.items() if comparison_key(link.name) != key}
            ended, self._links = len(self._links) - len(links), links
        return ended + self._sessions.end_user_sessions(name)

    def valid_sessions(self) -> list[Session]:
        """Return the valid sessions, sorted by name."""
        return self._sessions.valid_sessions()

    def authenticate_cookie(self, cookie: str) -> User | None:
        """Return the user of a session cookie; None if the session has ended or expired."""
        found = self._sessions.find_session(cookie)
        return None if found is None else User(found.name, found.seat, found.role)

    def authenticate_token(self, token: str) -> User | None:
        """Return the user of a token, compared in constant time; None if the token is wrong."""
        word = token.encode("utf-8", "surrogateescape")
        if hmac.compare_digest(word, self._token):
            return PROGRAM
        is_scorer = self._scorer is not None and hmac.compare_digest(word, self._scorer)
        return SCORER if is_scorer else None


def _key_hash(key: str) -> str:
    # Keys are looked up by hash, so that the time of a lookup reveals nothing about valid keys.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
