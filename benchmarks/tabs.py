"""Open dashboards, as `benchmarks.status` has them watch a pipeline.

    TOKEN=... python -m benchmarks.tabs ADDRESS COUNT

Each loads the page and follows what is pushed to it. What a browser draws of that costs the machine
of whoever looks, and is left out.
"""

import asyncio
import os
import re
import sys
from urllib.parse import urlencode
from uuid import uuid4

import aiohttp
import socketio


async def look(address, n):
    """Keep the dashboard open `n` times over, as browsers do, until killed."""
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        tabs = [await opened(session, address) for _ in range(n)]
        print("looking", flush=True)
        await asyncio.gather(*(tab.wait() for tab in tabs))


async def opened(session, address):
    """Open the dashboard in a tab."""
    async with session.get(f"{address}/") as answer:
        found = re.search(r"'client_id': '(.+?)', 'next_message_id': (\d+)", await answer.text())
    query = {"client_id": found[1], "next_message_id": found[2], "implicit_handshake": "true"}
    query |= {"document_id": str(uuid4()), "tab_id": str(uuid4())}
    tab = socketio.AsyncClient(http_session=session)

    @tab.on("update")
    async def update(message):
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
