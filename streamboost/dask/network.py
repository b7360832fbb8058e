"""All-reduce over several machines: the first worker adds up arrays, and returns the sums to all.

The connections are plain sockets, without a library for collective operations. If a worker dies,
its connection ends at once. Then the training attempt ends on all workers, but the processes of the
other workers continue.
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
    TlsContexts,
    authenticated_connections,
)
from streamboost.environment import describe_differences, environment
from streamboost.errors import ConfigurationError, LostWorkerError
from streamboost.trees.sums import AllReduce

_CONNECT_SECONDS = 10  # for an unreachable machine; a reachable one answers at once
_KEEP_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""Keep-alive: after 20 seconds without a sign of a machine, its connection ends.

No TCP_USER_TIMEOUT: it would also end the connection of a computing worker with more unread data
than the system buffers. If a machine is lost with data in transit, Dask detects the loss.
"""

_OPEN: dict[str, list[socket.socket]] = {}
"""Mapping from the token of a training attempt to the open sockets of this process."""


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Address to which the workers of a training attempt connect.

    `n` is the number of workers, and `token` the password of the attempt.
    """

    host: str
    port: int
    n: int
    token: str = field(repr=False)


def open_rendezvous(host: str, n_workers: int) -> Rendezvous:
    """Open a port on this machine for a training of `n_workers`, and return its address.

    `host` is the name or IP address of this machine.
    """
    family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
    server = socket.socket(family, socket.SOCK_STREAM)
    server.bind((host, 0))
    server.listen(n_workers)
    token = secrets.token_hex(16)
    _OPEN[token] = [server]
    return Rendezvous(host, server.getsockname()[1], n_workers, token)


def abort_attempt(token: str) -> None:
    """Close the sockets of the training attempt with this `token` in this process.

    Calls that are blocked on these sockets raise LostWorkerError.
    """
    sockets = _OPEN.pop(token, [])
    _shut_down_sockets(sockets)
    for each in sockets:
        each.close()


def _shut_down_sockets(sockets: list[socket.socket]) -> None:
    for each in sockets:
        with suppress(OSError):
            # Not the method of a TLS socket, which would send pending data in the clear.
            socket.socket.shutdown(each, socket.SHUT_RDWR)


def join_rendezvous(
    rendezvous: Rendezvous, rank: int, encryption: TlsContexts | None = None
) -> AllReduce:
    """Connect to the other workers as worker `rank`; return the all-reduce over all workers.

    The first worker, of rank 0, must have called `open_rendezvous`. With `encryption`, all data is
    sent by TLS. Either all workers have `encryption`, or none. Raises LostWorkerError if a worker
    does not connect, and ConfigurationError if the workers' environments would not give bitwise
    equal results.
    """
    try:
        if rank == 0:
            return _AllReduceOfFirstWorker(_accept_worker_connections(rendezvous, encryption))
        connection = socket.create_connection((rendezvous.host, rendezvous.port), _CONNECT_SECONDS)
        if encryption is not None:
            connection = encryption.outgoing_context.wrap_socket(
                connection, server_hostname=rendezvous.host
            )
        _OPEN.setdefault(rendezvous.token, []).append(connection)
        connection.settimeout(None)  # a peer may compute for any time
        _enable_keep_alive(connection)
        _send_message(connection, rendezvous.token.encode() + json.dumps(environment()).encode())
        refusal = _receive_message(connection).decode()
    except OSError as error:
        raise LostWorkerError(_lost_worker_message(error)) from error
    if refusal:
        raise ConfigurationError(refusal)
    return _AllReduceOfOtherWorker(connection)


def _accept_worker_connections(
    rendezvous: Rendezvous, encryption: TlsContexts | None
) -> list[socket.socket]:
    """Accept the connections of all other workers, and return them.

    Raises ConfigurationError if the environment of a worker would give other results.
    """
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
            refusal = refusal or _environment_mismatch_message(theirs)
    for connection in others:
        _send_message(connection, refusal.encode())
    if refusal:
        raise ConfigurationError(refusal)
    return others


def _environment_mismatch_message(peer_environment: dict[str, str]) -> str:
    unlike = describe_differences(environment(), peer_environment)
    return unlike and (
        f"the workers' results would differ: {unlike} on another worker. Train on "
        "workers of one kind, with the same releases"
    )


@dataclass(frozen=True, slots=True)
class _AllReduceOfFirstWorker(AllReduce):
    peers: list[socket.socket]

    def sum_over_shards(self, values: np.ndarray) -> None:
        """Add the arrays of all other workers to `values`, in place, and send the sums to them."""
        theirs = np.empty_like(values)
        try:
            for connection in self.peers:
                _receive_array(connection, theirs)
                values += theirs
            for connection in self.peers:
                _send_message(connection, values.data.cast("B"))
        except OSError as error:
            _shut_down_sockets(self.peers)  # the others must not wait for the sum
            raise LostWorkerError(_lost_worker_message(error)) from error


@dataclass(frozen=True, slots=True)
class _AllReduceOfOtherWorker(AllReduce):
    first: socket.socket

    def sum_over_shards(self, values: np.ndarray) -> None:
        """Send `values` to the first worker, and replace `values` by the sums that it returns."""
        try:
            _send_message(self.first, values.data.cast("B"))
            _receive_array(self.first, values)
        except OSError as error:
            raise LostWorkerError(_lost_worker_message(error)) from error


def _lost_worker_message(error: OSError) -> str:
    return f"a worker of the training was lost ({error})"


def _enable_keep_alive(connection: socket.socket) -> None:
    """Enable TCP keep-alive, so that a dead machine is detected while no data is expected."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # not on every platform
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _send_message(connection: socket.socket, data: bytes | memoryview) -> None:
    connection.sendall(HEADER.pack(len(data)))
    connection.sendall(data)


def _receive_message(connection: socket.socket, max_bytes: int = MAX_HANDSHAKE_BYTES) -> bytes:
    size = bytearray(HEADER.size)
    _receive_until_full(connection, memoryview(size))
    (n,) = HEADER.unpack(size)
    if not 0 <= n <= max_bytes:
        raise ConnectionError(f"{n} bytes announced, where at most {max_bytes} make sense")
    data = bytearray(n)
    _receive_until_full(connection, memoryview(data))
    return bytes(data)


def _receive_array(connection: socket.socket, values: np.ndarray) -> None:
    size = bytearray(HEADER.size)
    _receive_until_full(connection, memoryview(size))
    (n,) = HEADER.unpack(size)
    if n != values.nbytes:
        raise ConnectionError(f"{n} bytes announced and {values.nbytes} due: out of step")
    _receive_until_full(connection, values.data.cast("B"))


def _receive_until_full(connection: socket.socket, buffer: memoryview) -> None:
    at = 0
    while at < len(buffer):
        n = connection.recv_into(buffer[at:])
        if n == 0:
            raise ConnectionResetError("the connection ended")
        at += n
