"""Open dashboards, as `benchmarks.status` has them watch a pipeline.

    TOKEN=... python -m benchmarks.tabs ADDRESS COUNT

Each loads the page and follows what is pushed to it. What a browser draws of that costs the machine
of whoever looks, and is left out. Told to end, it says how many bytes of JSON were pushed to all.
"""

import asyncio
import json
import os
import re
import signal
import sys
from urllib.parse import urlencode
from uuid import uuid4

import aiohttp
import socketio


async def look(address, n):
    """Keep the dashboard open `n` times over, as browsers do, until killed."""
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        pushed, over = [0], asyncio.Event()
        tabs = [await opened(session, address, pushed) for _ in range(n)]
        pushed[0] = 0
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
        print("looking", flush=True)
        await over.wait()
        print(pushed[0], flush=True)
        await asyncio.gather(*(tab.disconnect() for tab in tabs))


async def opened(session, address, pushed):
    """Open the dashboard in a tab; what comes is added to `pushed`."""
    async with session.get(f"{address}/") as answer:
        found = re.search(r"'client_id': '(.+?)', 'next_message_id': (\d+)", await answer.text())
    query = {"client_id": found[1], "next_message_id": found[2], "implicit_handshake": "true"}
    query |= {"document_id": str(uuid4()), "tab_id": str(uuid4())}
    tab = socketio.AsyncClient(http_session=session)

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
