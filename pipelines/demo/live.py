"""The demo to take part in: a stream that does not end, and requests left for a person.

The records of River's ImageSegments come again and again under new ids: first a few hundred in
quick succession, answered by the dataset itself, so that there is something to see; then at a pace
that can be watched, and every third request is left for whoever opens the page.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from streamboost.connectors.messages.written import Label
from streamboost.connectors.river import RiverSource
from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.errors import ConfigurationError
from streamboost.pipelines.config.file import Tables
from streamboost.pipelines.demo import compare as demo
from streamboost.pipelines.job.run import run
from streamboost.pipelines.stop import Stop

__all__ = ["Player", "play"]

FIRST = 600
"""Records that come fast, while the pages are being started."""

FAST = 150
"""Records a second until then: slow enough for answers to come a few records late."""

PACE = 10
"""Records a second afterwards."""

LEFT = 3
"""Of so many requests one is left for the person."""

EXPIRES = "90s"
"""How long that one waits: the figures of accuracy come so much later."""

_MOMENT = 0.05
_CLOSING = 15.0
_encode = msgspec.json.Encoder().encode


class _Asked(msgspec.Struct):
    id: str


_decode = msgspec.json.Decoder(_Asked).decode


class Player:
    """Brings the records, and answers most of the requests.

    Parameters
    ----------
    log
        The pipeline's log.
    records, truth
        The records, and their labels.
    clock
        Gives seconds that never go back.
    """

    def __init__(
        self,
        log: Path,
        records: Sequence[dict[str, Any]],
        truth: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._truth = truth
        self._clock = clock
        self._began = clock()
        self._written = self._asked = 0
        self._stream = SqliteSink(log, "records")
        self._labels = SqliteSink(log, "labels")
        self._requests = SqliteSource(log, "requests")

    def turn(self) -> None:
        """Bring what is due by now, and answer what was asked."""
        seconds = self._clock() - self._began
        due = int(min(FAST * seconds, FIRST + PACE * max(seconds - FIRST / FAST, 0.0)))
        numbers = range(self._written, due)
        self._stream.write([_encode(self._record(number)) for number in numbers])
        self._stream.flush()
        self._written = due
        asked = [_decode(message.payload).id for message in self._requests.poll(1_000)]
        ours = [int(id) for id in asked if _is_below(id, due)]
        answered = [number for number in ours if not self._leaves(number)]
        self._labels.write(
            [Label(str(n), self._label(n), source="demo").encode() for n in answered]
        )
        self._labels.flush()

    def close(self) -> None:
        """Let go of the log."""
        for part in (self._stream, self._labels, self._requests):
            part.close()

    def _leaves(self, number: int) -> bool:
        """Tell whether the request for record `number` is the person's."""
        if number < FIRST:
            return False
        self._asked += 1
        return self._asked % LEFT == 1

    def _record(self, number: int) -> dict[str, Any]:
        # Nobody can tell from the numbers; text is no feature, so the committee does not see it.
        further = {"id": str(number), "hint": f"it is {self._label(number)}"}
        return self._records[number % len(self._records)] | further

    def _label(self, number: int) -> str:
        return self._truth[number % len(self._truth)]


def _is_below(id: str, due: int) -> bool:
    """Tell whether it is a record of ours: whoever watches may bring others, and answers those."""
    return id.isdecimal() and len(id) <= len(str(due)) and int(id) < due


def play(folder: Path, *, strategy: str, seed: int, budget: float, port: int, stop: Stop) -> None:
    """Run the demo's pipeline and serve its pages until asked to stop.

    The pipeline file and the state are left in `folder`. ConfigurationError says that the pages
    could not be served, after what they said themselves.
    """
    config = demo.begin(pipeline_file(strategy, seed, budget), folder)
    with closing(RiverSource(demo.DATASET)) as source:
        records = [msgspec.json.decode(message.payload) for message in source.poll(sys.maxsize)]
    player = Player(config.state / "log.db", records, demo.truth())
    with (
        _served(folder / demo.FILE, port) as server,
        closing(player),
        _playing(player, server, stop),
    ):
        run(config, stop=stop)
        code = server.poll()
    if code:
        raise ConfigurationError(
            f"`streamboost serve` ended with {code}, and the demo with it: see what it said"
        )


def pipeline_file(strategy: str, seed: int, budget: float) -> Tables:
    """Return the sections of the pipeline file: the demo's, but for who answers."""
    sections = demo.pipeline_file(demo.image_segments(), strategy, seed, budget)
    return sections | {
        "pipeline": sections["pipeline"] | {"name": "demo"},
        "labels": {"connector": "sqlite", "stream": "labels"},
        "requests": {"connector": "sqlite", "stream": "requests", "expires_after": EXPIRES},
    }


@contextmanager
def _served(file: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Serve the pages by a process of their own meanwhile."""
    command = [sys.executable, "-m", "streamboost.pipelines.cli.__main__", "serve", str(file)]
    server = subprocess.Popen([*command, "--port", str(port)])
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(_CLOSING)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def _playing(player: Player, server: subprocess.Popen[bytes], stop: Stop) -> Iterator[None]:
    """Play in a thread meanwhile; what goes wrong there, or with the server, ends the pipeline."""
    over, failures = threading.Event(), list[Exception]()

    def go_on() -> None:
        try:
            while not over.wait(_MOMENT):
                player.turn()
                if server.poll() is not None:
                    stop.request()
                    return
        except Exception as error:
            failures.append(error)
            stop.request()

    thread = threading.Thread(target=go_on, name="streamboost-demo")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    for failure in failures:
        raise failure
