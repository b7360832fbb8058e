"""Predictions asked for over HTTP, as `benchmarks.status` has them slow a pipeline.

    TOKEN=... python -m benchmarks.predicting ADDRESS RATE

It asks for one record's prediction `RATE` times a second, of four connections. It says "answered"
after the first answer. Told to end, it says how many answers came, and the median of the
milliseconds that one took.
"""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from statistics import median

import aiohttp

from benchmarks.status import FEATURES

CONNECTIONS = 4
BEHIND = 0.1
"""Seconds after which what was not asked is not made up for: it was stopped meanwhile."""


async def ask(session, url, every, taken):
    """Ask again and again, `every` so many seconds, adding to `taken` how long an answer took."""
    record = {f"x{k}": 0.1 * k for k in range(FEATURES)}
    due = time.perf_counter()
    while True:
        began = time.perf_counter()
        # One that was stopped for long finds its connection closed, and takes another.
        with suppress(aiohttp.ServerDisconnectedError):
            async with session.post(url, json={"records": [record]}) as answer:
                await answer.read()
                if answer.status == 200:
                    if not taken:
                        print("answered", flush=True)
                    taken.append(1e3 * (time.perf_counter() - began))
        due = max(due + every, time.perf_counter() - BEHIND)
        await asyncio.sleep(max(due - time.perf_counter(), 0.0))


async def load(address, rate):
    headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    url, taken, over = f"{address}/api/v1/pipelines/bench/predict", [], asyncio.Event()
    async with aiohttp.ClientSession(headers=headers) as session:
        every = CONNECTIONS / rate
        tasks = [asyncio.create_task(ask(session, url, every, taken)) for _ in range(CONNECTIONS)]
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
        print("asking", flush=True)
        await over.wait()
        for task in tasks:
            task.cancel()
        print(len(taken), median(taken or [0.0]), flush=True)


if __name__ == "__main__":
    asyncio.run(load(sys.argv[1], float(sys.argv[2])))
