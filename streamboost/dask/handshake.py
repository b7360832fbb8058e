"""Handshake: authenticates the connections between workers with a secret token.

A slow or silent peer does not block the others. If the cluster uses TLS, both sides of a connection
use its certificates.
"""

import hmac
import json
import selectors
import socket
import ssl
import struct
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

HEADER = struct.Struct("!q")  # number of bytes that follow
MAX_HANDSHAKE_BYTES = 65_536
_MAX_UNAUTHENTICATED = 50  # unauthenticated connections; the oldest is closed first
_CHECK_SECONDS = 0.5  # interval to check whether the attempt was abandoned


@dataclass(frozen=True, slots=True)
class TlsContexts:
    """TLS contexts of a worker: one for accepted, and one for outgoing connections."""

    accepted_context: ssl.SSLContext
    outgoing_context: ssl.SSLContext

    @classmethod
    def from_worker(cls, worker: Any) -> "TlsContexts | None":
        """Return the TLS contexts of a Dask worker, or None if its cluster does not use TLS."""
        if worker.address.split("://")[0] not in ("tls", "wss"):
            return None
        accepted_context = worker.security.get_listen_args("worker")["ssl_context"]
        return cls(accepted_context, worker.security.get_connection_args("worker")["ssl_context"])


def authenticated_connections(
    server: socket.socket, token: bytes, encryption: TlsContexts | None
) -> Generator[tuple[socket.socket, dict[str, str]]]:
    """Yield each connection to `server` that sent `token`, and the peer's `environment()`.

    All other connections are closed. `encryption` is None if the cluster does not use TLS. Raises
    ConnectionAbortedError after `server` was closed.
    """
    unauthenticated = dict[socket.socket, bytearray]()
    with selectors.DefaultSelector() as selector:
        with suppress(ValueError):  # it may be closed already, which the loop detects
            selector.register(server, selectors.EVENT_READ)
        try:
            while server.fileno() >= 0:
                for key, _ in selector.select(_CHECK_SECONDS):
                    connection = key.fileobj
                    assert isinstance(connection, socket.socket)
                    if connection is server:
                        _accept_connection(server, unauthenticated, selector, encryption)
                    elif connection in unauthenticated:
                        message = _read_handshake(connection, unauthenticated[connection], token)
                        if message is None:
                            continue
                        selector.unregister(connection)
                        del unauthenticated[connection]
                        if message:
                            connection.setblocking(True)
                            yield connection, json.loads(message)
                        else:
                            connection.close()
            raise ConnectionAbortedError("the attempt was given up")
        finally:
            for connection in unauthenticated:
                connection.close()


def _accept_connection(
    server: socket.socket,
    unauthenticated: dict[socket.socket, bytearray],
    selector: selectors.BaseSelector,
    encryption: TlsContexts | None,
) -> None:
    if len(unauthenticated) == _MAX_UNAUTHENTICATED:
        oldest = next(iter(unauthenticated))
        selector.unregister(oldest)
        del unauthenticated[oldest]
        oldest.close()
    connection, _ = server.accept()
    connection.setblocking(False)
    if encryption is not None:  # the TLS handshake is non-blocking, too
        connection = encryption.accepted_context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
    unauthenticated[connection] = bytearray()
    selector.register(connection, selectors.EVENT_READ)


def _read_handshake(connection: socket.socket, received: bytearray, token: bytes) -> bytes | None:
    """Read from a connection, and return the message that follows the token.

    Returns None if the message is not complete yet, and b"" if the token is wrong or the connection
    has ended. Bytes are appended to `received`, and are not decoded before authentication.
    """
    has_ended = False
    try:
        # Read all: data that TLS has buffered does not make the socket readable again.
        while not has_ended and len(received) <= HEADER.size + MAX_HANDSHAKE_BYTES:
            chunk = connection.recv(MAX_HANDSHAKE_BYTES)
            received += chunk
            has_ended = not chunk
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        pass
    except OSError:
        return b""
    begin = HEADER.size + len(token)
    if len(received) < begin:
        return b"" if has_ended else None
    (n,) = HEADER.unpack_from(received)
    is_known = hmac.compare_digest(bytes(received[HEADER.size : begin]), token)
    if has_ended or not is_known or not len(token) < n <= MAX_HANDSHAKE_BYTES:
        return b""
    return bytes(received[begin:]) if len(received) == HEADER.size + n else None
