"""Ports for servers that a test starts, and perhaps kills and starts again."""

import random
import socket
from contextlib import closing

BELOW_CLIENTS = range(20_000, 32_000)
"""Ports that no system gives to the client side of a connection, as they do with 32768 and above.

A client that tries a server which is being started again could be given the server's own port.
"""


def free_ports(count):
    """Return `count` different ports at which nobody listens on this machine."""
    found = []
    for port in random.SystemRandom().sample(BELOW_CLIENTS, len(BELOW_CLIENTS)):
        if len(found) == count:
            return found
        with closing(socket.socket()) as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    raise RuntimeError(f"fewer than {count} of the ports {BELOW_CLIENTS} are free")
