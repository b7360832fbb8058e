"""Live demo: an endless stream of handwritten digits, whose requests the user answers.

The digits are repeated under new ids, with their pictures. First, a few hundred records are
streamed fast and answered by the dataset, so that the pages have content when they open. Then the
stream slows down, and most requests are left for the user.
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

from streamboost.connectors.base import PARTITION
from streamboost.connectors.messages.outgoing import Label
from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.errors import ConfigurationError, StateError
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config import toml
from streamboost.pipelines.config.file import Config, Tables, parse
from streamboost.pipelines.demo import compare as demo
from streamboost.pipelines.demo.digits import PIXELS, load_digit_records
from streamboost.pipelines.runner.batch import StepResult
from streamboost.pipelines.runner.observers import Observer
from streamboost.pipelines.shutdown import StopToken

__all__ = ["BUDGET", "StreamSimulator", "run_live_demo"]

FIRST = 600
"""Number of records predicted before the pages open."""

FAST = 200
"""Records per second until then: slow enough for answers to arrive a few records later."""

PACE = 10
"""Records per second afterwards."""

BUDGET = 0.05
"""Label budget: at `PACE`, one person can answer most of the requests."""

OURS = 3
"""The dataset answers every third request, so that the metrics change without an annotator."""

EXPIRES = "20s"
"""Expiry of the other requests, which is also the delay of the accuracy estimates."""

_MOMENT = 0.05
_CLOSING = 15.0
_encode = msgspec.json.Encoder().encode


class _RequestId(msgspec.Struct):
    id: str


_decode = msgspec.json.Decoder(_RequestId).decode


class StreamSimulator:
    """Generator that writes the stream of digits, and answers some of the label requests.

    A new generator continues after the last record of an earlier one, and leaves the earlier open
    requests to the user.

    Parameters
    ----------
    log
        The pipeline's log.
    records, truth
        The records, and their labels.
    clock
        Monotonic clock, in seconds.

    Attributes
    ----------
    start
        The number of the first new record.
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
        self._stream = SqliteSink(log, "records")
        self._labels = SqliteSink(log, "labels")
        self._requests = SqliteSource(log, "requests")
        self._requests.seek({PARTITION: self._requests.lag()})
        with closing(SqliteSource(log, "records")) as earlier:
            self.start = self._written = earlier.lag()
        self._asked = 0

    def write_due(self) -> None:
        """Write the records that are due by the clock, and answer some of the new requests."""
        seconds = self._clock() - self._began
        first = max(FIRST - self.start, 0)
        due = self.start + int(min(FAST * seconds, first + PACE * max(seconds - first / FAST, 0.0)))
        numbers = range(self._written, due)
        self._stream.write([_encode(self._record_at(number)) for number in numbers])
        self._stream.flush()
        self._written = due
        asked = [_decode(message.payload).id for message in self._requests.poll(1_000)]
        ours = [int(id) for id in asked if _is_demo_record(id, due)]
        answered = [number for number in ours if not self._is_left_to_user(number)]
        self._labels.write(
            [Label(str(n), self._label_at(n), source="demo").encode() for n in answered]
        )
        self._labels.flush()

    def close(self) -> None:
        """Close the sinks and the source of the pipeline's log."""
        for part in (self._stream, self._labels, self._requests):
            part.close()

    def _is_left_to_user(self, number: int) -> bool:
        """Count a request; return whether the request for record `number` is left to the user."""
        if number < FIRST:
            return False
        self._asked += 1
        return self._asked % OURS != 0

    def _record_at(self, number: int) -> dict[str, Any]:
        return self._records[number % len(self._records)] | {"id": str(number)}

    def _label_at(self, number: int) -> str:
        return self._truth[number % len(self._truth)]


class PageOpener(Observer):
    """Observer that sets the event `opened` after a number of predicted records."""

    def __init__(self, records: int) -> None:
        self._missing = records
        self.opened = threading.Event()
        self._open_if_due()

    def committed(self, effects: StepResult) -> None:
        """Count the predicted records of one batch, and set `opened` if the number is reached."""
        self._missing -= effects.n_predicted
        self._open_if_due()

    def _open_if_due(self) -> None:
        if self._missing <= 0:
            self.opened.set()


def _is_demo_record(id: str, n_written: int) -> bool:
    """Return whether `id` is one of the demo's first `n_written` records, not posted by a user."""
    return id.isdecimal() and len(id) <= len(str(n_written)) and int(id) < n_written


def run_live_demo(
    folder: Path, *, strategy: str, seed: int, budget: float, port: int, stop: StopToken
) -> None:
    """Run the demo's pipeline and serve its pages until `stop` is requested.

    The pipeline file and the state stay in `folder`, where the next call continues. Raises
    ConfigurationError if `serve` failed, which has printed the reason, and StateError if `folder`
    has other content.
    """
    config = _create_or_continue_pipeline(pipeline_sections(strategy, seed, budget), folder)
    records, truth = load_digit_records()
    player = StreamSimulator(config.state / "log.db", records, truth)
    opening = PageOpener(FIRST - player.start)
    with (
        closing(player),
        _serve_process(folder / demo.FILE, port, opening.opened) as server,
        _simulator_thread(player, server, stop),
    ):
        run(config, stop=stop, observers=[opening])
        code = server.poll()
    if code:
        raise ConfigurationError(
            f"`streamboost serve` ended with {code}, and the demo with it: see what it said"
        )


def pipeline_sections(strategy: str, seed: int, budget: float) -> Tables:
    """Return the sections of the live demo's pipeline file."""
    sections = demo.pipeline_sections(demo.image_segments(), strategy, seed, budget)
    return sections | {
        "pipeline": sections["pipeline"] | {"name": "demo"},
        "schema": {"numeric": PIXELS, "classes": [str(digit) for digit in range(10)]},
        "labels": {"connector": "sqlite", "stream": "labels"},
        "requests": {"connector": "sqlite", "stream": "requests", "expires_after": EXPIRES},
    }


def _create_or_continue_pipeline(sections: Tables, folder: Path) -> Config:
    """Create the demo in `folder`, or continue an existing demo with equal settings.

    Raises StateError if the existing demo has other settings.
    """
    config, file = parse(sections, folder.absolute(), name="the demo"), folder / demo.FILE
    if not config.state.exists():
        return demo.create_pipeline(sections, folder)
    if not file.is_file() or file.read_text(encoding="utf-8") != toml.format_sections(sections):
        raise StateError(
            f"{folder} holds a demo of other settings: give those, or name another folder"
        )
    return config


@contextmanager
def _serve_process(
    file: Path, port: int, opened: threading.Event
) -> Iterator[subprocess.Popen[str]]:
    """Run `streamboost serve` as a subprocess, and print its login link once `opened` is set."""
    command = [sys.executable, "-m", "streamboost.pipelines.cli.__main__", "serve", str(file)]
    server = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.PIPE, text=True)
    pipe = server.stdout
    assert pipe is not None

    def print_link() -> None:
        opened.wait()
        for line in pipe:
            print(line, end="", flush=True)

    speaker = threading.Thread(target=print_link, name="streamboost-demo-link")
    speaker.start()
    try:
        yield server
    finally:
        server.terminate()
        try:
            server.wait(_CLOSING)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        opened.set()
        speaker.join()
        pipe.close()


@contextmanager
def _simulator_thread(
    player: StreamSimulator, server: subprocess.Popen[str], stop: StopToken
) -> Iterator[None]:
    """Run `player` in a thread; if `player` fails or `server` ends, request a stop."""
    over, failures = threading.Event(), list[Exception]()

    def write_until_stopped() -> None:
        try:
            while not over.wait(_MOMENT):
                player.write_due()
                if server.poll() is not None:
                    stop.request()
                    return
        except Exception as error:
            failures.append(error)
            stop.request()

    thread = threading.Thread(target=write_until_stopped, name="streamboost-demo")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    for failure in failures:
        raise failure
