"""Who is asking, and what they may: the token, login links that work once, and cookies.

A person follows a login link; the browser then holds a cookie for a login that the server keeps.
A program sends the token itself.
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
from streamboost.pipelines.service.access.names import checked_name, name_key
from streamboost.pipelines.service.access.sessions import Role, Session, Sessions

__all__ = ["PROGRAM", "SCORER", "People", "Person"]

_LINK_SECONDS = 24 * 3600
_MOST_LINKS = 1_000


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who labels: the `name` is kept with every label, and each login has a `seat`.

    Two seats never have the same record before them, even under one name.
    """

    name: str
    seat: str
    role: Role = "labeller"

    @property
    def may_score(self) -> bool:
        """Whether they may have records predicted: operators, and programs with that token."""
        return self.role in ("operator", "scorer")


PROGRAM = Person("api", "api", "operator")
"""Whoever sends the token itself."""

SCORER = Person("scorer", "scorer", "scorer")
"""Whoever sends the token that is good for predictions alone."""


@dataclass(frozen=True, slots=True)
class _Link:
    until: float
    name: str
    role: Role


class People:
    """Lets in who has the token, a login link or a cookie; for any number of threads.

    Parameters
    ----------
    token : the secret that programs send, and without which no login is worth anything
    folder : where logins are kept
    scorer : the secret of programs that only have records predicted; None: there are none
    clock : gives the seconds by which login links grow old
    wall_clock : gives the seconds since 1970 by which logins do

    Attributes
    ----------
    labellers : gives the names under which labels were given, in any number of spellings

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> people = People("a secret", Path(mkdtemp()))
    >>> key = people.invite("ann", "labeller")
    >>> cookie = people.log_in(key)
    >>> people.by_cookie(cookie).name
    'ann'
    >>> people.log_in(key) is None, people.by_cookie("forged") is None
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
        self.labellers: Callable[[], Iterable[str]] = tuple
        self._clock = clock
        self._links: dict[str, _Link] = {}
        self._lock = threading.Lock()
        self._sessions = Sessions(folder, self._token, wall_clock)

    def invite(self, name: str, role: Role) -> str:
        """Return the key of a login link for `name`, which works once, for a day.

        Raises DataError where nobody can be called so.
        """
        name = self.spelled(name)
        if name_key(name) == PROGRAM.name:
            raise DataError(f"the name {name!r} is what programs go by: give another")
        key = token_urlsafe(32)
        now = self._clock()
        with self._lock:
            self._links = {k: link for k, link in self._links.items() if link.until > now}
            while len(self._links) >= _MOST_LINKS:
                del self._links[next(iter(self._links))]
            self._links[_hashed(key)] = _Link(now + _LINK_SECONDS, name, role)
        return key

    def spelled(self, given: str) -> str:
        """Return a person's name in the spelling under which that person is known already.

        Names that differ in case, width or spaces alone are one person's. Of several spellings
        from before that was so, each stays its own.

        Raises DataError where nobody can be called so.
        """
        name = checked_name(given)
        key = name_key(name)
        names = {link.name for link in list(self._links.values())}
        names |= {session.name for session in self._sessions.open()} | {*self.labellers()}
        if name in names:
            return name
        return min((one for one in names if name_key(one) == key), default=name)

    def invited(self, key: str) -> tuple[str, Role] | None:
        """Return whom `key` lets in and as what, None where it was used or is too old."""
        link = self._links.get(_hashed(key))
        return None if link is None or link.until <= self._clock() else (link.name, link.role)

    def log_in(self, key: str) -> str | None:
        """Return the cookie for whoever brings `key`, None where it was used or is too old.

        Raises StateError where the login cannot be kept; the key is still good then.
        """
        with self._lock:
            found = self.invited(key)
            if found is None:
                return None
            cookie = self._sessions.begin(*found)
            del self._links[_hashed(key)]
        return cookie

    def log_out(self, cookie: str) -> None:
        """End the login of this cookie, which is good for nothing from now on."""
        self._sessions.end(cookie)

    def log_out_all(self, name: str) -> int:
        """End all logins of `name`, also links that nobody followed; return how many."""
        key = name_key(name)
        with self._lock:
            links = {k: link for k, link in self._links.items() if name_key(link.name) != key}
            ended, self._links = len(self._links) - len(links), links
        return ended + self._sessions.end_all(name)

    def logged_in(self) -> list[Session]:
        """Return the logins there are, by name."""
        return self._sessions.open()

    def by_cookie(self, cookie: str) -> Person | None:
        """Return whose cookie this is, None where they are logged out or it is too old."""
        found = self._sessions.of(cookie)
        return None if found is None else Person(found.name, found.seat, found.role)

    def by_token(self, given: str) -> Person | None:
        """Return who sends the token `given`, in a time that does not tell how much of it is right.

        None: nobody does.
        """
        word = given.encode("utf-8", "surrogateescape")
        if hmac.compare_digest(word, self._token):
            return PROGRAM
        is_scorer = self._scorer is not None and hmac.compare_digest(word, self._scorer)
        return SCORER if is_scorer else None


def _hashed(key: str) -> str:
    # Looked up by its hash, so that how long it takes says nothing of the keys there are.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
