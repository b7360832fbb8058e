"""A loopback proxy in front of a broker: cuts connections, drops a response, or delays data."""

import socket
import struct
import threading
from contextlib import suppress

END_TXN = 26
"""The protocol's number of the request that ends a transaction."""


class Proxy:
    """Passes requests from `port` on to `target`, and the answers back, frame by frame."""

    def __init__(self, port: int, target: int) -> None:
        self.lost = threading.Event()
        self.delay = 0.0
        """Seconds by which each answer comes later."""
        self._losing: int | None = None
        self._target = target
        self._connections: list[_Connection] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def asked(self) -> int:
        """How often somebody has connected."""
        return len(self._connections)

    def lose_answer(self, api_key: int) -> None:
        """Cut the connection on which the next request of this kind is answered, instead."""
        self.lost.clear()
        self._losing = api_key

    def cut(self) -> None:
        """Break all connections; new ones can be made."""
        for connection in self._connections:
            connection.cut()

    def close(self) -> None:
        """Break all connections and take no more."""
        # A thread that waits for a connection is only woken like this.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def takes(self, api_key: int) -> bool:
        """Tell whether the answer to such a request is the one to lose, which is done once."""
        if self._losing != api_key:
            return False
        self._losing = None
        return True

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            self._connections.append(_Connection(self, client, broker))


class _Connection:
    """One client's connection to the broker, a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy, self._client, self._broker = proxy, client, broker
        self._is_losing = False
        for pump in (self._requests, self._answers):
            threading.Thread(target=pump, daemon=True).start()

    def cut(self) -> None:
        for end in (self._client, self._broker):
            with suppress(OSError):  # the other direction has ended it already
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _requests(self) -> None:
        while frame := _frame(self._client):
            (api_key,) = struct.unpack_from(">h", frame, 4)
            if self._proxy.takes(api_key):
                self._is_losing = True
            if not _send(self._broker, frame):
                break
        self.cut()

    def _answers(self) -> None:
        while frame := _frame(self._broker):
            if self._is_losing:
                self._proxy.lost.set()
                break
            threading.Event().wait(self._proxy.delay)
            if not _send(self._client, frame):
                break
        self.cut()


def _frame(connection: socket.socket) -> bytes:
    """Read a length and what it announces; nothing where the connection ends before."""
    head = _exactly(connection, 4)
    if len(head) < 4:
        return b""
    (size,) = struct.unpack(">i", head)
    body = _exactly(connection, size)
    return head + body if len(body) == size else b""


def _exactly(connection: socket.socket, n: int) -> bytes:
    parts = bytearray()
    try:
        while len(parts) < n and (part := connection.recv(n - len(parts))):
            parts += part
    except OSError:
        return b""
    return bytes(parts)


def _send(connection: socket.socket, frame: bytes) -> bool:
    try:
        connection.sendall(frame)
    except OSError:
        return False
    return True
