"""The pipeline's own small web server: is it alive, is it ready, and its metrics.

It listens on 127.0.0.1 unless told otherwise, and runs in threads of its own, so that whoever asks
neither slows nor stops the loop. ``/healthz`` and ``/readyz`` are open, and say only yes (200) or
no (503). ``/metrics`` wants ``Authorization: Bearer TOKEN``, with the token that stands in a file
which only the user who runs the pipeline may read, and, as a page elsewhere may call this machine
by a name of its own, a Host that is this machine's.
"""

import hmac
import re
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from streamboost.errors import ConfigurationError

__all__ = ["HealthPlace", "HealthServer"]

_NAMES = {"127.0.0.1", "localhost", "::1"}
_CLOSING = 0.1
"""Seconds that closing takes at most."""

AT_ONCE = 50
"""Connections that are open together; the oldest ends for a newer one."""

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class HealthPlace:
    """Where to listen.

    Parameters
    ----------
    port : 0: any free one
    address : of this machine
    names : further names that it is reached by
    certificate, key : files for https, both or none
    """

    port: int
    address: str = "127.0.0.1"
    names: Sequence[str] = ()
    certificate: Path | None = None
    key: Path | None = None

    def knows(self, host: str) -> bool:
        """Tell whether a Host, without its port, is this machine's.

        Beyond loopback any number is: a page elsewhere can have a name lead here, but no number.
        """
        name = host.lower().strip("[]")
        if name in _NAMES or name in {one.lower().strip("[]") for one in self.names}:
            return True
        return self.address not in _NAMES and _is_number(name)

    @property
    def url(self) -> str:
        """What it is reached by, without the port."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'http' if self.certificate is None else 'https'}://{host}"

    def listen(self, handler: type[BaseHTTPRequestHandler]) -> "_Server":
        """Return a server that listens; ConfigurationError where none can."""
        context = None if self.certificate is None else self._context()
        try:
            server = _Server(self, handler)
        except OSError as error:
            mend = "choose a free port, or 0 for none"
            if self.address not in _NAMES:
                mend += ", and an address that this machine has, such as 0.0.0.0 for all"
            raise ConfigurationError(
                f"[monitor] port = {self.port}: cannot listen on {self.address}:{self.port} "
                f"({error.strerror or error}): {mend}"
            ) from error
        if context is not None:
            # Whoever is slow to agree on a key keeps a thread waiting, not the one that accepts.
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        return server

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        assert self.certificate is not None
        try:
            context.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"[monitor] certificate = {str(self.certificate)!r} and key cannot be used "
                f"({error}): give files in PEM that belong together, the key without a password"
            ) from None
        return context


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class _Server(ThreadingHTTPServer):
    """Answers each connection in a thread, a bounded number at once."""

    daemon_threads = True

    def __init__(self, place: HealthPlace, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
        self._open: deque[socket.socket] = deque()
        self._lock = threading.Lock()
        super().__init__((place.address, place.port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection; where there are too many, the oldest has waited long enough."""
        with self._lock:
            self._open.append(request)
            oldest = self._open.popleft() if len(self._open) > AT_ONCE else None
        if oldest is not None:
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        with self._lock, suppress(ValueError):
            self._open.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a caller that goes away: others would fill the log from afar."""


class HealthServer:
    """Answers from threads of its own until it is closed.

    Parameters
    ----------
    place : where to listen, or the port alone
    token : what /metrics wants
    ready : tells whether the pipeline works as it should
    metrics : gives the metrics in Prometheus' text format

    Raises
    ------
    ConfigurationError
        When the port cannot be had, or a certificate not be used.

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
        place: HealthPlace | int,
        token: str,
        ready: Callable[[], bool],
        metrics: Callable[[], bytes],
    ) -> None:
        place = HealthPlace(place) if isinstance(place, int) else place
        handler = type(
            "Handler",
            (_Handler,),
            {
                "token": f"Bearer {token}".encode(),
                "ready": staticmethod(ready),
                "metrics": staticmethod(metrics),
                "knows": staticmethod(place.knows),
            },
        )
        self._server = place.listen(handler)
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
    knows: Callable[[str], bool]
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
        host = self.headers.get("Host", "")
        if not self.knows(re.sub(r":\d*$", "", host)):
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
