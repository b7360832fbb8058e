"""Open dashboards that follow a pipeline, for `benchmarks.status`.

    TOKEN=... python -m benchmarks.tabs ADDRESS COUNT

Each dashboard loads the page and receives pushed changes, compressed as browsers accept them. The
cost of drawing in a browser is not included. On SIGTERM the process prints the bytes of JSON pushed
to all dashboards since SIGUSR1, and the bytes on the wire.
"""

import asyncio
import json
import os
import re
import signal
import socket
import struct
import sys
from urllib.parse import urlencode
from uuid import uuid4

import aiohttp
import socketio


async def look(address, n):
    """Keep the dashboard open `n` times over, as browsers do, until killed."""
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        pushed, over, loop = [0], asyncio.Event(), asyncio.get_running_loop()
        tabs = [await opened(session, address, pushed) for _ in range(n)]
        begun = [0, 0]

        def now():
            return pushed[0], sum(map(received, tabs))

        loop.add_signal_handler(signal.SIGUSR1, lambda: begun.__setitem__(slice(2), now()))
        loop.add_signal_handler(signal.SIGTERM, over.set)
        print("looking", flush=True)
        await over.wait()
        print(*(b - a for a, b in zip(begun, now(), strict=True)), flush=True)
        await asyncio.gather(*(tab.disconnect() for tab in tabs))


def received(tab):
    """Return the bytes received on the connection (``tcpi_bytes_received`` of Linux)."""
    connection = tab.eio.ws.get_extra_info("socket")
    return struct.unpack_from(
        "=Q", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), 128
    )[0]


async def opened(session, address, pushed):
    """Open the dashboard in a tab, and add received bytes to `pushed`."""
    async with session.get(f"{address}/") as answer:
        found = re.search(r"'client_id': '(.+?)', 'next_message_id': (\d+)", await answer.text())
    query = {"client_id": found[1], "next_message_id": found[2], "implicit_handshake": "true"}
    query |= {"document_id": str(uuid4()), "tab_id": str(uuid4())}
    tab = socketio.AsyncClient(http_session=session, websocket_extra_options={"compress": 15})

    @tab.on("update")
    async def update(message):
        pushed[0] += len(json.dumps(message, separators=(",", ":")))
        place = {"client_id": query["client_id"], "next_message_id": message["_id"] + 1}
        await tab.emit("ack", place)

    await tab.connect(
        f"{address}?{urlencode(query)}",
        socketio_path="/_nicegui_ws/socket.io",
        transports=["websocket"],
    )
    return tab


if __name__ == "__main__":
    asyncio.run(look(sys.argv[1], int(sys.argv[2])))
