"""Web server of a pipeline for liveness and readiness checks, and for Prometheus metrics.

The server listens on 127.0.0.1 by default, and runs in separate threads, so that requests do not
block the runner. ``/healthz`` and ``/readyz`` need no authentication, and answer only yes (200) or
no (503). ``/metrics`` requires ``Authorization: Bearer TOKEN``, with the token from a file
that only the pipeline's user may read. It also checks the Host
header, against DNS rebinding by web pages.
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

_NAMES = {"127.0.0.1", "localhost", "::1"}
_CLOSING = 0.1
"""Maximum time to close the server, in seconds."""

AT_ONCE = 50
"""Maximum number of open connections; the oldest is closed for a newer one."""

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class HealthServerAddress:
    """Address and TLS certificate of the server for health checks and metrics.

    Parameters
    ----------
    port : port to listen on; 0: any free port
    host : address or name to listen on
    allowed_hosts : further allowed Host headers
    certificate, key : files for https, both or none
    """

    port: int
    host: str = "127.0.0.1"
    allowed_hosts: Sequence[str] = ()
    certificate: Path | None = None
    key: Path | None = None

    def allows_host(self, host: str) -> bool:
        """Return whether `host`, the Host header of a request without its port, is allowed.

        If the server is reachable from other machines, every IP address is allowed: DNS rebinding
        works with names only.
        """
        name = host.lower().strip("[]")
        if name in _NAMES or name in {one.lower().strip("[]") for one in self.allowed_hosts}:
            return True
        return self.host not in _NAMES and _is_ip_address(name)

    @property
    def url(self) -> str:
        """URL of the server, without the port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.certificate is None else 'https'}://{host}"

    def listen(self, handler: type[BaseHTTPRequestHandler]) -> "_BoundedThreadingServer":
        """Start to listen; return the server. ConfigurationError if the port cannot be bound."""
        context = None if self.certificate is None else self._tls_context()
        try:
            server = _BoundedThreadingServer(self, handler)
        except OSError as error:
            mend = "set a free port, or 0 for no server"
            if self.host not in _NAMES:
                mend += ", and an address of this machine, such as 0.0.0.0 for all addresses"
            raise ConfigurationError(
                f"[monitor] port = {self.port}: cannot listen on {self.host}:{self.port} "
                f"({error.strerror or error}): {mend}"
            ) from error
        if context is not None:
            # The TLS handshake is done in the connection's thread, not in the accepting one.
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        return server

    def _tls_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        assert self.certificate is not None
        try:
            context.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"[monitor] certificate = {str(self.certificate)!r} and key cannot be used "
                f"({error}): set a PEM certificate and its key without a password"
            ) from None
        return context


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class _BoundedThreadingServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = AT_ONCE  # the listen backlog: further connections depend on TCP retries

    def __init__(self, address: HealthServerAddress, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._open: deque[socket.socket] = deque()
        self._lock = threading.Lock()
        super().__init__((address.host, address.port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.append(request)
            oldest = self._open.popleft() if len(self._open) > AT_ONCE else None
        if oldest is not None:
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock, suppress(ValueError):
            self._open.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error of an aborted connection: remote clients could fill the log."""


class HealthServer:
    """Server for health checks and metrics, in background threads until `close`.

    Parameters
    ----------
    address : address to listen on, or only the port
    token : token that /metrics requires
    ready : returns whether the pipeline is ready
    metrics : returns the metrics in Prometheus' text format

    Raises
    ------
    ConfigurationError
        If the port cannot be bound, or the certificate is invalid.

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
        address: HealthServerAddress | int,
        token: str,
        ready: Callable[[], bool],
        metrics: Callable[[], bytes],
    ) -> None:
        address = HealthServerAddress(address) if isinstance(address, int) else address
        handler = type(
            "Handler",
            (_HealthRequestHandler,),
            {
                "token": f"Bearer {token}".encode(),
                "ready": staticmethod(ready),
                "metrics": staticmethod(metrics),
                "knows": staticmethod(address.allows_host),
            },
        )
        self._server = address.listen(handler)
        self.port = int(self._server.server_port)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": _CLOSING},
            name="streamboost-monitor",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _HealthRequestHandler(BaseHTTPRequestHandler):
    token: bytes
    ready: Callable[[], bool]
    metrics: Callable[[], bytes]
    knows: Callable[[str], bool]
    timeout = 5.0  # seconds for a client to send its request

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self._send_response(200, b"yes\n")
        elif self.path == "/readyz":
            ready = self.ready()
            self._send_response(200 if ready else 503, b"yes\n" if ready else b"no\n")
        elif self.path == "/metrics":
            self._send_metrics()
        else:
            self._send_response(404, b"not found\n")

    def _send_metrics(self) -> None:
        host = self.headers.get("Host", "")
        if not self.knows(re.sub(r":\d*$", "", host)):
            self._send_response(
                400, b"unknown Host header: add the name to [monitor] allowed_hosts\n"
            )
            return
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        if hmac.compare_digest(given, self.token):
            self._send_response(200, self.metrics(), _METRICS)
        else:
            self._send_response(401, b"missing or wrong token: send Authorization: Bearer TOKEN\n")

    def _send_response(self, status: int, body: bytes, content_type: str = _TEXT) -> None:
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """Return the name of the server, without the version of Python."""
        return "streamboost"

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests, as periodic checks would fill the log."""
