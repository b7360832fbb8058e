"""Webhook: signed HTTP messages, which a background thread sends and retries."""

import base64
import hashlib
import hmac
import http.client
import logging
import secrets
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

_log = logging.getLogger(__name__)

DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds before each retry of a message."""

_TIMEOUT = 10.0
"""Seconds to wait for the response to a message."""

_CLOSING = 5.0
"""Seconds to wait for the last message."""

_RETRIABLE = (408, 429)
"""Client errors after which a message is retried; after others, a retry would fail, too."""


class Webhook:
    """Sender of messages to one URL, with at most one message at a time.

    A message is a POST request with the headers of Standard Webhooks
    (https://www.standardwebhooks.com): `webhook-id`, which stays the same over retries,
    `webhook-timestamp`, and with a key `webhook-signature`. Errors never reach the caller: the
    first of consecutive failures is logged.

    Parameters
    ----------
    url : http or https address
    key : key of the signatures; None: messages are not signed
    take_body : returns the body of the next message, or None without one; called by the thread
    every : minimum seconds between two messages
    """

    def __init__(
        self, url: str, key: bytes | None, take_body: Callable[[], bytes | None], *, every: float
    ) -> None:
        self.on_result: Callable[[str], None] = lambda result: None
        """Function called with "sent" or "failed" for each message."""
        self._url = url
        self._key = key
        self._take_body = take_body
        self._every = every
        self._opener = urllib.request.build_opener(_RedirectRefusal)
        self._due, self._closing = threading.Event(), threading.Event()
        self._has_failed = False
        self._thread = threading.Thread(target=self._send_messages, name="notify", daemon=True)
        self._thread.start()

    def send_soon(self) -> None:
        """Wake the thread, which sends the next message once `every` seconds have passed."""
        self._due.set()

    def close(self) -> None:
        """Send the last message without a pause, and wait at most five seconds for this."""
        self._closing.set()
        self._due.set()
        self._thread.join(_CLOSING)

    def _send_messages(self) -> None:
        while not self._closing.is_set():
            self._due.wait()
            self._due.clear()
            if self._send_next():
                self._closing.wait(self._every)
        self._send_next()

    def _send_next(self) -> bool:
        body = self._take_body()
        if body is None:
            return False
        failure = self._send_with_retries(body)
        self.on_result("failed" if failure else "sent")
        if failure and not self._has_failed:
            _log.warning(
                "a notification to %s failed: %s. The pipeline continues; check [notify] url",
                url_origin(self._url),
                failure,
                extra={"event": "notification_failed"},
            )
        self._has_failed = bool(failure)
        return True

    def _send_with_retries(self, body: bytes) -> str:
        """Send a message, with retries; return the last failure as text, or "" after success."""
        id = f"msg_{secrets.token_hex(12)}"
        for delay in (*DELAYS, None):
            failure, is_retriable = self._send_once(id, body)
            if not failure or not is_retriable or delay is None:
                return failure
            if self._closing.wait(delay):
                time.sleep(min(delay, 1.0))  # a closing sender does not wait longer
        raise AssertionError("the last attempt has no delay")

    def _send_once(self, id: str, body: bytes) -> tuple[str, bool]:
        """Send a message once; return the failure, "" after success, and whether to retry."""
        request = urllib.request.Request(self._url, body, self._headers(id, body), method="POST")
        try:
            with self._opener.open(request, timeout=_TIMEOUT):
                return "", False
        except urllib.error.HTTPError as error:
            error.close()
            return f"HTTP status {error.code}", error.code >= 500 or error.code in _RETRIABLE
        except urllib.error.URLError as error:
            return f"{error.reason}", True
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__, True  # without the text, which may contain the URL
        except Exception as error:
            return type(error).__name__, False

    def _headers(self, id: str, body: bytes) -> dict[str, str]:
        timestamp = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "streamboost",
            "webhook-id": id,
            "webhook-timestamp": timestamp,
        }
        if self._key is not None:
            signed = f"{id}.{timestamp}.".encode() + body
            digest = hmac.digest(self._key, signed, hashlib.sha256)
            headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
        return headers


class _RedirectRefusal(urllib.request.HTTPRedirectHandler):
    """Handler under which a redirect is an error, so that messages reach the given URL only."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def url_origin(url: str) -> str:
    """Return scheme, host and port of `url`: the path of a webhook may be a secret.

    Examples
    --------
    >>> url_origin("https://hooks.slack.com/services/T0/B0/secret?a=1")
    'https://hooks.slack.com'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
