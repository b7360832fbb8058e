"""Who is asking: the token, login links that work once, and signed cookies.

A person follows a login link; the browser then holds a cookie which the token signs, so that a
restart of `serve` logs nobody out, and a new token everybody. A program sends the token itself.
"""

import hashlib
import hmac
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_urlsafe

from itsdangerous import BadData, URLSafeTimedSerializer

from streamboost.errors import DataError

__all__ = ["PROGRAM", "SESSION_SECONDS", "People", "Person"]

SESSION_SECONDS = 7 * 24 * 3600
"""How long a cookie is good for."""

_LINK_SECONDS = 24 * 3600
_MOST_LINKS = 1_000
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who labels: the `name` is kept with every label, and each login has a `seat`.

    Two seats never have the same record before them, even under one name.
    """

    name: str
    seat: str

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > _LONGEST_NAME or not self.name.isprintable():
            raise DataError(
                f"the name {self.name!r} cannot be a person's: give 1 to {_LONGEST_NAME} letters "
                "without control characters"
            )


PROGRAM = Person("api", "api")
"""Whoever sends the token itself."""


class People:
    """Lets in who has the token, a login link or a cookie; for any number of threads.

    Parameters
    ----------
    token : the secret that programs send and that signs the cookies
    clock : gives the seconds by which login links grow old

    Examples
    --------
    >>> people = People("a secret")
    >>> key = people.invite("ann")
    >>> cookie = people.log_in(key)
    >>> people.by_cookie(cookie).name
    'ann'
    >>> people.log_in(key) is None, people.by_cookie("forged") is None
    (True, True)
    """

    def __init__(self, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._token = token.encode()
        self._clock = clock
        self._links: dict[str, tuple[float, str]] = {}
        self._lock = threading.Lock()
        self._signer = URLSafeTimedSerializer(
            token, salt="streamboost session", signer_kwargs={"digest_method": hashlib.sha256}
        )

    def invite(self, name: str) -> str:
        """Return the key of a login link for `name`, which works once, for a day.

        Raises DataError where nobody can be called so.
        """
        person = Person(name, "")
        key = token_urlsafe(32)
        now = self._clock()
        with self._lock:
            self._links = {k: link for k, link in self._links.items() if link[0] > now}
            while len(self._links) >= _MOST_LINKS:
                del self._links[next(iter(self._links))]
            self._links[_hashed(key)] = (now + _LINK_SECONDS, person.name)
        return key

    def log_in(self, key: str) -> str | None:
        """Return the cookie for whoever brings `key`, None where it was used or is too old."""
        with self._lock:
            until, name = self._links.pop(_hashed(key), (0.0, ""))
        if not name or until <= self._clock():
            return None
        return self._signer.dumps([name, token_urlsafe(12)])

    def by_cookie(self, cookie: str) -> Person | None:
        """Return whose cookie this is, None where it was not signed here or is too old."""
        try:
            name, seat = self._signer.loads(cookie, max_age=SESSION_SECONDS)
        except BadData:
            return None
        return Person(name, seat)

    def is_token(self, given: str) -> bool:
        """Tell whether `given` is the token, in a time that does not tell how much of it is."""
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)


def _hashed(key: str) -> str:
    # Looked up by its hash, so that how long it takes says nothing of the keys there are.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
