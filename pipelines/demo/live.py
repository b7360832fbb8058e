"""Live demo: an endless stream of handwritten digits, which the user labels on request.

The digits are repeated under new ids, with their pictures. First, a few hundred records
are streamed fast, and their requests are answered with the dataset's labels, so that the pages have
content when they open. Then the stream slows down, and most requests are left for the user.
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

FIRST = 600
"""Number of records predicted before the pages open."""

FAST = 200
"""Records per second before the pages open, so that answers arrive only a few records later."""

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
    """Simulator that writes the stream of digits, and answers some of the label requests.

    A new simulator continues after the last record of an earlier simulator. It does not answer
    requests that are open at its start: the user can answer them.

    Parameters
    ----------
    log : path to the SQLite file with the pipeline's log
    records, truth : the records to repeat, and their labels
    clock : monotonic clock, in seconds

    Attributes
    ----------
    start : the number of the first new record
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

    def write_due_records(self) -> None:
        """Write the records that are due by the clock, and answer some of the new requests."""
        seconds = self._clock() - self._began
        first = max(FIRST - self.start, 0)
        due = self.start + int(min(FAST * seconds, first + PACE * max(seconds - first / FAST, 0.0)))
        numbers = range(self._written, due)
        n = len(self._records)
        self._stream.write([_encode(self._records[i % n] | {"id": str(i)}) for i in numbers])
        self._stream.flush()
        self._written = due
        asked = [_decode(message.payload).id for message in self._requests.poll(1_000)]
        ours = [int(id) for id in asked if _is_demo_record(id, due)]
        answered = [number for number in ours if not self._is_request_left_to_user(number)]
        self._labels.write(
            [
                Label(str(i), self._truth[i % len(self._truth)], source="demo").encode()
                for i in answered
            ]
        )
        self._labels.flush()

    def close(self) -> None:
        """Close the sinks and the source of the pipeline's log."""
        for part in (self._stream, self._labels, self._requests):
            part.close()

    def _is_request_left_to_user(self, record_number: int) -> bool:
        """Count a request; return whether this request for a record is left to the user."""
        if record_number < FIRST:
            return False
        self._asked += 1
        return self._asked % OURS != 0


class RecordCountObserver(Observer):
    """Observer that sets the event `enough_records` once `records` records are predicted."""

    def __init__(self, records: int) -> None:
        self._missing = records
        self.enough_records = threading.Event()
        self._set_event_if_due()

    def on_commit(self, effects: StepResult) -> None:
        """Count the predicted records of one batch, and set the event if the number is reached."""
        self._missing -= effects.n_predicted
        self._set_event_if_due()

    def _set_event_if_due(self) -> None:
        if self._missing <= 0:
            self.enough_records.set()


def _is_demo_record(record_id: str, n_written: int) -> bool:
    return (
        record_id.isdecimal()
        and len(record_id) <= len(str(n_written))
        and int(record_id) < n_written
    )


def run_live_demo(
    folder: Path, *, strategy: str, seed: int, budget: float, port: int, stop: StopToken
) -> None:
    """Run the demo's pipeline and serve its pages until `stop` is requested.

    The pipeline file and the state stay in `folder`, so that the next call continues them. Raises
    ConfigurationError if the `serve` process failed, which prints the reason itself. Raises
    StateError if `folder` has other content.
    """
    config = _create_or_continue_pipeline(pipeline_sections(strategy, seed, budget), folder)
    records, truth = load_digit_records()
    player = StreamSimulator(config.state / "log.db", records, truth)
    counter = RecordCountObserver(FIRST - player.start)
    with (
        closing(player),
        _run_serve_process(folder / demo.FILE, port, counter.enough_records) as server,
        _run_simulator_thread(player, server, stop),
    ):
        run(config, stop=stop, observers=[counter])
        code = server.poll()
    if code:
        raise ConfigurationError(
            f"the demo stopped, as `streamboost serve` failed with code {code}: see its error above"
        )


def pipeline_sections(strategy: str, seed: int, budget: float) -> Tables:
    """Return the sections of the live demo's pipeline file."""
    sections = demo.pipeline_sections(demo.load_image_segments(), strategy, seed, budget)
    return sections | {
        "pipeline": sections["pipeline"] | {"name": "demo"},
        "schema": {"numeric": PIXELS, "classes": [str(digit) for digit in range(10)]},
        "labels": {"connector": "sqlite", "stream": "labels"},
        "requests": {"connector": "sqlite", "stream": "requests", "expires_after": EXPIRES},
    }


def _create_or_continue_pipeline(sections: Tables, folder: Path) -> Config:
    config, file = parse(sections, folder.absolute(), name="the demo"), folder / demo.FILE
    if not config.state.exists():
        return demo.create_pipeline(sections, folder)
    if not file.is_file() or file.read_text(encoding="utf-8") != toml.format_sections(sections):
        raise StateError(
            f"{folder} has a demo with other settings: give the same settings or another folder"
        )
    return config


@contextmanager
def _run_serve_process(
    pipeline_file: Path, port: int, may_print_link: threading.Event
) -> Iterator[subprocess.Popen[str]]:
    """Context manager: runs `streamboost serve`; prints its login link after `may_print_link`."""
    command = [
        sys.executable,
        "-m",
        "streamboost.pipelines.cli.__main__",
        "serve",
        str(pipeline_file),
    ]
    server = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.PIPE, text=True)
    pipe = server.stdout
    assert pipe is not None

    def print_login_link() -> None:
        may_print_link.wait()
        for line in pipe:
            print(line, end="", flush=True)

    speaker = threading.Thread(target=print_login_link, name="streamboost-demo-link")
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
        may_print_link.set()
        speaker.join()
        pipe.close()


@contextmanager
def _run_simulator_thread(
    simulator: StreamSimulator, server: subprocess.Popen[str], stop: StopToken
) -> Iterator[None]:
    """Context manager: runs `simulator` in a thread, and requests a stop if it fails.

    A stop is also requested when `server` ends. An error of the simulator is raised at the end.
    """
    over, failures = threading.Event(), list[Exception]()

    def write_records_until_stopped() -> None:
        try:
            while not over.wait(_MOMENT):
                simulator.write_due_records()
                if server.poll() is not None:
                    stop.request_stop()
                    return
        except Exception as error:
            failures.append(error)
            stop.request_stop()

    thread = threading.Thread(target=write_records_until_stopped, name="streamboost-demo")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    for failure in failures:
        raise failure
