"""The pipeline's own small web server: is it alive, is it ready, and its metrics.

It listens on 127.0.0.1 alone and runs in threads of its own, so that whoever asks neither slows nor
stops the loop. ``/healthz`` and ``/readyz`` are open, and say only yes (200) or no (503).
``/metrics`` wants ``Authorization: Bearer TOKEN``, with the token that stands in a file which only
the user who runs the pipeline may read, and, as a page elsewhere may call this machine by a name of
its own, a Host that is this machine's.
"""

import hmac
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from streamboost.errors import ConfigurationError

__all__ = ["HealthServer"]

_HOST = "127.0.0.1"
_NAMES = {_HOST, "localhost", "[::1]"}
_CLOSING = 0.1
"""Seconds that closing takes at most."""

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class HealthServer:
    """Answers from threads of its own until it is closed.

    Parameters
    ----------
    port : where to listen; 0: any free one
    token : what /metrics wants
    ready : tells whether the pipeline works as it should
    metrics : gives the metrics in Prometheus' text format

    Raises
    ------
    ConfigurationError
        When the port cannot be had.

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> server = HealthServer(0, "secret", ready=lambda: True, metrics=lambda: b"")
    >>> urlopen(f"http://127.0.0.1:{server.port}/readyz").read()
    b'yes\\n'
    >>> server.close()
    """

    def __init__(
        self,
        port: int,
        token: str,
        ready: Callable[[], bool],
        metrics: Callable[[], bytes],
    ) -> None:
        handler = type(
            "Handler",
            (_Handler,),
            {
                "token": f"Bearer {token}".encode(),
                "ready": staticmethod(ready),
                "metrics": staticmethod(metrics),
            },
        )
        try:
            self._server = ThreadingHTTPServer((_HOST, port), handler)
        except OSError as error:
            raise ConfigurationError(
                f"[monitor] port = {port}: cannot listen on {_HOST}:{port} ({error.strerror}): "
                "choose a free port, or 0 for none"
            ) from error
        self.port = int(self._server.server_port)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": _CLOSING},
            name="streamboost-monitor",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    token: bytes
    ready: Callable[[], bool]
    metrics: Callable[[], bytes]
    timeout = 5.0  # seconds that a caller may take to ask

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._answer(200, b"yes\n")
        elif self.path == "/readyz":
            ready = self.ready()
            self._answer(200 if ready else 503, b"yes\n" if ready else b"no\n")
        elif self.path == "/metrics":
            self._give_metrics()
        else:
            self._answer(404, b"not found\n")

    def _give_metrics(self) -> None:
        host = self.headers.get("Host", "").lower()
        if re.sub(r":\d*$", "", host) not in _NAMES:
            self._answer(400, b"this machine is not called so\n")
            return
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        if hmac.compare_digest(given, self.token):
            self._answer(200, self.metrics(), _METRICS)
        else:
            self._answer(401, b"the token is needed\n")

    def _answer(self, status: int, body: bytes, kind: str = _TEXT) -> None:
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "streamboost"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a line for every look would drown the others."""
