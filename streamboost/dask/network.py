"""All-reduce of sums over shards on several machines: the first worker adds and broadcasts.

Uses plain sockets instead of a library for collectives: if a worker dies, the connection ends at
once. Then the attempt ends, too, but the processes of the other workers do not.
"""

import json
import secrets
import socket
from contextlib import closing, suppress
from dataclasses import dataclass, field

import numpy as np

from streamboost.dask.handshake import (
    HEADER,
    MAX_HANDSHAKE_BYTES,
    Encryption,
    authenticated_connections,
)
from streamboost.environment import differences, environment
from streamboost.errors import ConfigurationError, LostWorkerError
from streamboost.trees.sums import AllReduce

__all__ = ["Rendezvous", "abandon", "join", "listen"]

_CONNECT_SECONDS = 10  # for an unreachable machine; a reachable one answers at once
_KEEP_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Keep-alive: after 20 seconds without a sign of a machine, its connection ends.

No TCP_USER_TIMEOUT: it would also end the connection of a computing worker with more unread data
than the system buffers. If a machine is lost with data in transit, Dask detects the loss.
"""

_OPEN: dict[str, list[socket.socket]] = {}
"""Open sockets of this process by the token of their attempt."""


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Address where the `n` workers of an attempt connect, authenticated by `token`."""

    host: str
    port: int
    n: int
    token: str = field(repr=False)


def listen(host: str, n: int) -> Rendezvous:
    """Open a port of `host`, this machine, for connections of `n` - 1 other workers."""
    family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
    server = socket.socket(family, socket.SOCK_STREAM)
    server.bind((host, 0))
    server.listen(n)
    token = secrets.token_hex(16)
    _OPEN[token] = [server]
    return Rendezvous(host, server.getsockname()[1], n, token)


def abandon(token: str) -> None:
    """End an attempt: calls that wait in it, in this process, raise LostWorkerError."""
    sockets = _OPEN.pop(token, [])
    _shut_down(sockets)
    for each in sockets:
        each.close()


def _shut_down(sockets: list[socket.socket]) -> None:
    for each in sockets:
        with suppress(OSError):
            # Not the method of a TLS socket, which would send pending data in the clear.
            socket.socket.shutdown(each, socket.SHUT_RDWR)


def join(rendezvous: Rendezvous, rank: int, encryption: Encryption | None = None) -> AllReduce:
    """Connect to the other workers as the `rank`-th; return the all-reduce over all of them.

    The first worker has called `listen`. With `encryption`, which all workers have or none, all
    data is sent by TLS. Raises LostWorkerError if a worker does not connect, and
    ConfigurationError if the workers' environments would not give bitwise equal results.
    """
    try:
        if rank == 0:
            return _RootAllReduce(_accept_workers(rendezvous, encryption))
        connection = socket.create_connection((rendezvous.host, rendezvous.port), _CONNECT_SECONDS)
        if encryption is not None:
            connection = encryption.outgoing_context.wrap_socket(
                connection, server_hostname=rendezvous.host
            )
        _OPEN.setdefault(rendezvous.token, []).append(connection)
        connection.settimeout(None)  # a peer may compute for any time
        _enable_keep_alive(connection)
        _send(connection, rendezvous.token.encode() + json.dumps(environment()).encode())
        refusal = _receive(connection).decode()
    except OSError as error:
        raise LostWorkerError(_lost_worker(error)) from error
    if refusal:
        raise ConfigurationError(refusal)
    return _PeerAllReduce(connection)


def _accept_workers(rendezvous: Rendezvous, encryption: Encryption | None) -> list[socket.socket]:
    """Return the connections to all others, authenticated and with equal environments."""
    sockets = _OPEN.get(rendezvous.token)
    if sockets is None:
        raise ConnectionAbortedError("the attempt was given up before it began")
    others, refusal = list[socket.socket](), ""
    with closing(
        authenticated_connections(sockets[0], rendezvous.token.encode(), encryption)
    ) as known:
        while len(others) < rendezvous.n - 1:
            connection, theirs = next(known)
            _enable_keep_alive(connection)
            sockets.append(connection)
            others.append(connection)
            refusal = refusal or _refusal(theirs)
    for connection in others:
        _send(connection, refusal.encode())
    if refusal:
        raise ConfigurationError(refusal)
    return others


def _refusal(theirs: dict[str, str]) -> str:
    unlike = differences(environment(), theirs)
    return unlike and (
        f"the workers' results would differ: {unlike} on another worker. Train on "
        "workers of one kind, with the same releases"
    )


@dataclass(frozen=True, slots=True)
class _RootAllReduce(AllReduce):
    peers: list[socket.socket]

    def sum_over_shards(self, values: np.ndarray) -> None:
        """Add the values of the others, and send the sums to them."""
        theirs = np.empty_like(values)
        try:
            for connection in self.peers:
                _receive_into(connection, theirs)
                values += theirs
            for connection in self.peers:
                _send(connection, values.data.cast("B"))
        except OSError as error:
            _shut_down(self.peers)  # the others must not wait for the sum
            raise LostWorkerError(_lost_worker(error)) from error


@dataclass(frozen=True, slots=True)
class _PeerAllReduce(AllReduce):
    first: socket.socket

    def sum_over_shards(self, values: np.ndarray) -> None:
        """Send the values to the first worker, and receive the sums."""
        try:
            _send(self.first, values.data.cast("B"))
            _receive_into(self.first, values)
        except OSError as error:
            raise LostWorkerError(_lost_worker(error)) from error


def _lost_worker(error: OSError) -> str:
    return f"a worker of the training was lost ({error})"


def _enable_keep_alive(connection: socket.socket) -> None:
    """Enable keep-alive, which detects a lost machine however long its worker computes."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # not on every platform
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _send(connection: socket.socket, data: bytes | memoryview) -> None:
    connection.sendall(HEADER.pack(len(data)))
    connection.sendall(data)


def _receive(connection: socket.socket, most: int = MAX_HANDSHAKE_BYTES) -> bytes:
    size = bytearray(HEADER.size)
    _fill(connection, memoryview(size))
    (n,) = HEADER.unpack(size)
    if not 0 <= n <= most:
        raise ConnectionError(f"{n} bytes announced, where at most {most} make sense")
    data = bytearray(n)
    _fill(connection, memoryview(data))
    return bytes(data)


def _receive_into(connection: socket.socket, values: np.ndarray) -> None:
    size = bytearray(HEADER.size)
    _fill(connection, memoryview(size))
    (n,) = HEADER.unpack(size)
    if n != values.nbytes:
        raise ConnectionError(f"{n} bytes announced and {values.nbytes} due: out of step")
    _fill(connection, values.data.cast("B"))


def _fill(connection: socket.socket, data: memoryview) -> None:
    at = 0
    while at < len(data):
        n = connection.recv_into(data[at:])
        if n == 0:
            raise ConnectionResetError("the connection ended")
        at += n
