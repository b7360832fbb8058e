"""Who comes to a meeting: those who know its token, told from strangers, who keep nobody waiting.

Where the cluster speaks TLS, so do they: with its certificates, each showing one.
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

__all__ = ["HEADER", "MOST_GREETING", "Encryption", "greetings"]

HEADER = struct.Struct("!q")  # bytes that follow
MOST_GREETING = 65_536
_MOST_STRANGERS = 50  # that are connected and have not said who they are; the oldest ends
_LOOK_SECONDS = 0.5  # between looks at whether the attempt was given up


@dataclass(frozen=True, slots=True)
class Encryption:
    """What a worker's connections are wrapped in: those that it takes, and those that it makes."""

    taken: ssl.SSLContext
    made: ssl.SSLContext

    @classmethod
    def of(cls, worker: Any) -> "Encryption | None":
        """Return that of a Dask worker; None where its cluster does without."""
        if worker.address.split("://")[0] not in ("tls", "wss"):
            return None
        taken = worker.security.get_listen_args("worker")["ssl_context"]
        return cls(taken, worker.security.get_connection_args("worker")["ssl_context"])


def greetings(
    server: socket.socket, token: bytes, encryption: Encryption | None
) -> Generator[tuple[socket.socket, dict[str, str]]]:
    """Yield who knows the token, and what they compute with; others keep nobody waiting."""
    strangers = dict[socket.socket, bytearray]()
    with selectors.DefaultSelector() as waiting:
        with suppress(ValueError):  # by now it may have been closed, which is told below
            waiting.register(server, selectors.EVENT_READ)
        try:
            while server.fileno() >= 0:
                for key, _ in waiting.select(_LOOK_SECONDS):
                    connection = key.fileobj
                    assert isinstance(connection, socket.socket)
                    if connection is server:
                        _receive_stranger(server, strangers, waiting, encryption)
                    elif connection in strangers:
                        told = _told(connection, strangers[connection], token)
                        if told is None:
                            continue
                        waiting.unregister(connection)
                        del strangers[connection]
                        if told:
                            connection.setblocking(True)
                            yield connection, json.loads(told)
                        else:
                            connection.close()
            raise ConnectionAbortedError("the attempt was given up")
        finally:
            for connection in strangers:
                connection.close()


def _receive_stranger(
    server: socket.socket,
    strangers: dict[socket.socket, bytearray],
    waiting: selectors.BaseSelector,
    encryption: Encryption | None,
) -> None:
    if len(strangers) == _MOST_STRANGERS:
        oldest = next(iter(strangers))
        waiting.unregister(oldest)
        del strangers[oldest]
        oldest.close()
    connection, _ = server.accept()
    connection.setblocking(False)
    if encryption is not None:  # who shakes hands as slowly as may be keeps nobody waiting, either
        connection = encryption.taken.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
    strangers[connection] = bytearray()
    waiting.register(connection, selectors.EVENT_READ)


def _told(connection: socket.socket, heard: bytearray, token: bytes) -> bytes | None:
    """Return what follows the token, nothing where somebody does not know it; None: not all came.

    What a stranger says is read as bytes alone.
    """
    has_ended = False
    try:
        # All there is: what TLS has read already wakes nobody who waits for the socket.
        while not has_ended and len(heard) <= HEADER.size + MOST_GREETING:
            came = connection.recv(MOST_GREETING)
            heard += came
            has_ended = not came
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        pass
    except OSError:
        return b""
    begin = HEADER.size + len(token)
    if len(heard) < begin:
        return b"" if has_ended else None
    (n,) = HEADER.unpack_from(heard)
    is_known = hmac.compare_digest(bytes(heard[HEADER.size : begin]), token)
    if has_ended or not is_known or not len(token) < n <= MOST_GREETING:
        return b""
    return bytes(heard[begin:]) if len(heard) == HEADER.size + n else None
