"""Backpressure: a sink that stalls stops the pipeline, and memory stays bounded."""

import threading

import pytest

from streamboost.connectors.base import Sink
from streamboost.errors import UnavailableError
from streamboost.pipelines.runner.batch import OutputSinks


class Stalling(Sink):
    """A sink that blocks, or fails, in every flush until `go` is set."""

    def __init__(self, log, *, fails):
        self.log, self.fails = log, fails
        self.reached, self.go = threading.Event(), threading.Event()
        self.held = []
        self.attempts = 0

    def write(self, payloads):
        self.held += payloads

    def flush(self):
        self.attempts += 1
        if self.attempts > 3 or not self.fails:
            self.reached.set()
        if self.fails and not self.go.is_set():
            raise UnavailableError("nobody takes it")
        assert self.go.wait(timeout=60)
        self.log.append(self.held)
        self.held = []

    def close(self):
        self.held = []


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_more_is_read_until_the_batch_at_hand_is_written(world, make_records, fails):
    loop = world.loop
    loop.poll_interval = 0.001
    sink = Stalling(world.predictions, fails=fails)
    loop.outputs = OutputSinks(sink, loop.outputs.requests, loop.outputs.dead_letters)
    records, _ = make_records(2_000)
    world.feed(records)
    thread = threading.Thread(target=loop.run, kwargs={"until_idle": True})
    thread.start()
    try:
        assert sink.reached.wait(timeout=60)
        assert loop.intake.positions()["records"] == {"0": 10}
        assert loop.pipeline.join.counters()["held_records"] == 10
        assert len(sink.held) <= 10
        assert world.read("predictions") == []
    finally:
        sink.go.set()
        thread.join()
    assert [p["id"] for p in world.read("predictions")] == [r["id"] for r in records]
