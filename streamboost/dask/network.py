"""Sums of shards on several machines: the first worker adds up what the others send it.

Plain sockets rather than a library for collectives: where a worker dies the connection ends at
once, and with it the attempt, not the processes of the others.
"""

import json
import secrets
import socket
from contextlib import closing, suppress
from dataclasses import dataclass, field

import numpy as np

from streamboost.dask.greetings import HEADER, MOST_GREETING, Encryption, greetings
from streamboost.environment import differences, environment
from streamboost.errors import ConfigurationError, LostWorkerError
from streamboost.trees.sums import Sum

__all__ = ["Meeting", "abandon", "join", "listen"]

_CONNECT_SECONDS = 10  # for a machine that may be gone; one that is there answers at once
_SILENCE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""After 20 seconds without a sign of a machine it is given up; one that computes still answers.

No TCP_USER_TIMEOUT: that also ends a connection on which a worker that computes leaves more unread
than the system keeps. Where a machine goes with something sent on its way, Dask tells.
"""

_OPEN: dict[str, list[socket.socket]] = {}
"""The sockets of this process, by the attempt they belong to."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Where the workers of an attempt meet: `n` of them, who know its `token`."""

    host: str
    port: int
    n: int
    token: str = field(repr=False)


def listen(host: str, n: int) -> Meeting:
    """Open a port of `host`, this machine, at which `n` - 1 others will be met."""
    family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
    server = socket.socket(family, socket.SOCK_STREAM)
    server.bind((host, 0))
    server.listen(n)
    token = secrets.token_hex(16)
    _OPEN[token] = [server]
    return Meeting(host, server.getsockname()[1], n, token)


def abandon(token: str) -> None:
    """End an attempt: who waits in it, in this process, raises LostWorkerError."""
    sockets = _OPEN.pop(token, [])
    _shut(sockets)
    for each in sockets:
        each.close()


def _shut(sockets: list[socket.socket]) -> None:
    for each in sockets:
        with suppress(OSError):
            # Not that of a TLS socket, which would have what is sent meanwhile go in the clear.
            socket.socket.shutdown(each, socket.SHUT_RDWR)


def join(meeting: Meeting, rank: int, encryption: Encryption | None = None) -> Sum:
    """Meet the others as the `rank`-th; return the sums over all. The first has called `listen`.

    With `encryption`, which all have or none, whatever is said goes by TLS. Raises LostWorkerError
    where somebody does not come, ConfigurationError where somebody would not come to the same bits.
    """
    try:
        if rank == 0:
            return _First(_welcome(meeting, encryption))
        connection = socket.create_connection((meeting.host, meeting.port), _CONNECT_SECONDS)
        if encryption is not None:
            connection = encryption.made.wrap_socket(connection, server_hostname=meeting.host)
        _OPEN.setdefault(meeting.token, []).append(connection)
        connection.settimeout(None)  # who computes may take its time
        _watch(connection)
        _send(connection, meeting.token.encode() + json.dumps(environment()).encode())
        refusal = _receive(connection).decode()
    except OSError as error:
        raise LostWorkerError(_said(error)) from error
    if refusal:
        raise ConfigurationError(refusal)
    return _Other(connection)


def _welcome(meeting: Meeting, encryption: Encryption | None) -> list[socket.socket]:
    """Return the connections to all others, who know the token and come to the same bits."""
    sockets = _OPEN.get(meeting.token)
    if sockets is None:
        raise ConnectionAbortedError("the attempt was given up before it began")
    others, refusal = list[socket.socket](), ""
    with closing(greetings(sockets[0], meeting.token.encode(), encryption)) as known:
        while len(others) < meeting.n - 1:
            connection, theirs = next(known)
            _watch(connection)
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
        f"the workers would not come to the same bits: {unlike} on another worker. Train on "
        "workers of one kind, with the same releases"
    )


@dataclass(frozen=True, slots=True)
class _First(Sum):
    others: list[socket.socket]

    def add(self, values: np.ndarray) -> None:
        """Add what the others send, and send it to them."""
        theirs = np.empty_like(values)
        try:
            for connection in self.others:
                _receive_into(connection, theirs)
                values += theirs
            for connection in self.others:
                _send(connection, values.data.cast("B"))
        except OSError as error:
            _shut(self.others)  # who waits for the sum is to know
            raise LostWorkerError(_said(error)) from error


@dataclass(frozen=True, slots=True)
class _Other(Sum):
    first: socket.socket

    def add(self, values: np.ndarray) -> None:
        """Send it to the first, and take what comes of it."""
        try:
            _send(self.first, values.data.cast("B"))
            _receive_into(self.first, values)
        except OSError as error:
            raise LostWorkerError(_said(error)) from error


def _said(error: OSError) -> str:
    return f"a worker of the training was lost ({error})"


def _watch(connection: socket.socket) -> None:
    """Have the system tell when the other machine is silent, however long it computes."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _SILENCE.items():
        if hasattr(socket, name):  # not everywhere
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _send(connection: socket.socket, data: bytes | memoryview) -> None:
    connection.sendall(HEADER.pack(len(data)))
    connection.sendall(data)


def _receive(connection: socket.socket, most: int = MOST_GREETING) -> bytes:
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
