"""Prediction requests over HTTP at a fixed rate, for `benchmarks.status`.

    TOKEN=... python -m benchmarks.predicting ADDRESS RATE

The client sends `RATE` requests of one record each per second, whether or not earlier requests are
answered. Each request has a scheduled time, from which its latency is measured. The client sends
requests from the line "ask" to the line "rest" on its standard input. Then it waits for open
requests, closes its connections, and prints the seconds that it sent requests and the latency of
each in milliseconds. It fails if a response is an error.

All requests have the same bytes. Parsing the responses would cost time on the client's side and is
left out.
"""

import asyncio
import json
import os
import re
import sys
import time
from urllib.parse import urlsplit

from benchmarks.status import FEATURES

CONNECTIONS = 8
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


class Asker:
    """Asks at `address`, `rate` times a second."""

    def __init__(self, address, rate):
        where = urlsplit(address)
        body = json.dumps({"records": [{f"x{k}": 0.1 * k for k in range(FEATURES)}]})
        head = (
            "POST /api/v1/pipelines/bench/predict HTTP/1.1",
            f"Host: {where.netloc}",
            f"Authorization: Bearer {os.environ['TOKEN']}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        )
        self._request = "\r\n".join([*head, "", body]).encode()
        self._place = where.hostname, where.port
        self._every = 1 / rate
        self._free = asyncio.Queue()
        self._taken = []

    async def ask(self, until):
        """Ask until `until` is done; return the seconds, and the milliseconds of each answer."""
        self._taken = []
        for _ in range(CONNECTIONS):
            self._free.put_nowait(await asyncio.open_connection(*self._place))
        await self._one(time.perf_counter())  # the first request loads the model
        began = due = time.perf_counter()
        async with asyncio.TaskGroup() as answers:
            while not until.done():
                answers.create_task(self._one(due))
                due += self._every
                await asyncio.sleep(max(due - time.perf_counter(), 0.0))
            seconds = time.perf_counter() - began
        while not self._free.empty():
            self._free.get_nowait()[1].close()
        return seconds, *self._taken

    async def _one(self, due):
        """Ask once, on the connection that has waited the longest: `serve` ends idle ones."""
        reader, writer = connection = await self._free.get()
        writer.write(self._request)
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(int(LENGTH.search(head)[1]))
        if not head.startswith(b"HTTP/1.1 200 "):
            sys.exit((head + body).decode())
        self._taken.append(1e3 * (time.perf_counter() - due))
        self._free.put_nowait(connection)


async def told(address, rate):
    asker, lines = Asker(address, rate), asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    print("ready", flush=True)
    while await lines.readline():  # "ask", then "rest"
        print(*await asker.ask(asyncio.create_task(lines.readline())), flush=True)


if __name__ == "__main__":
    asyncio.run(told(sys.argv[1], float(sys.argv[2])))
