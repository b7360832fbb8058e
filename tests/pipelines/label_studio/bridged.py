"""Helpers for tests of the Label Studio bridge: write requests, run one turn, read labels."""

import json
from contextlib import closing

import msgspec

from streamboost.connectors.messages.outgoing import Request
from streamboost.connectors.sqlite.stream import SqliteSink, SqliteSource
from streamboost.pipelines.label_studio import run as label_studio
from streamboost.pipelines.shutdown import StopToken


def write(config, stream, messages):
    with closing(SqliteSink(config.state / "log.db", stream)) as sink:
        sink.write([json.dumps(message).encode() for message in messages])
        sink.flush()


def request(id, sequence=1, label="left", excluded=msgspec.UNSET):
    message = Request(
        id=id,
        time=None,
        features={"a": 0.5, "b": None},
        label=label,
        probabilities={"left": 0.75, "right": 0.25} if label else {},
        utility=0.5,
        propensity=1.0,
        expires=None,
        sequence=sequence,
        excluded_annotators=excluded,
    )
    return message.encode()


def ask(config, *ids, **more):
    with closing(SqliteSink(config.state / "log.db", "requests")) as sink:
        sink.write([request(id, **more) for id in ids])
        sink.flush()


def read(config, stream):
    with closing(SqliteSource(config.state / "log.db", stream)) as source:
        return [json.loads(message.payload) for message in source.poll(10_000)]


def labels(config):
    return read(config, "labels")


def turn(config):
    """Carry over what there is now, as a process of its own would."""
    label_studio.run(config, StopToken(), once=True)
