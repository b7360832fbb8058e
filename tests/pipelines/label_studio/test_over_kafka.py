"""Label Studio with a pipeline whose requests and labels are topics."""

import json
import time
from collections import Counter
from contextlib import closing

import pytest

from streamboost.pipelines.app.connect import create_topics
from streamboost.pipelines.config.file import parse
from tests.label_studio.front import LEGACY
from tests.label_studio.stand_in import StandIn
from tests.pipelines.label_studio.bridged import request, turn


@pytest.fixture
def stand_in():
    with closing(StandIn()) as server:
        yield server


@pytest.mark.kafka
@pytest.mark.slow
def test_requests_and_labels_may_be_topics(stand_in, tmp_path, kafka_servers):
    tables = {
        "pipeline": {"name": f"asks.{time.time_ns()}"},
        "schema": {"numeric": ["a", "b"]},
        "kafka": {"bootstrap_servers": kafka_servers},
        "source": {"connector": "kafka"},
        "label_studio": {"url": stand_in.url, "project": 7, "token": "${TOKEN}"},
        "monitor": {"publish_every": 0.0},
    }
    config = parse(tables, tmp_path, environment={"TOKEN": LEGACY})
    create_topics(config)
    with closing(config.sections.requests.create_sink(config.connector_context)) as sink:
        sink.write([request("1"), request("2")])
        sink.flush()
    turn(config)
    stand_in.annotate(stand_in.by_record()["2"][0], "right")
    turn(config)
    turn(config)
    with closing(config.sections.labels.create_source(config.connector_context)) as source:
        (label,) = source.poll(10)
    assert json.loads(label.payload)["id"] == "2"
    assert Counter(len(n) for n in stand_in.by_record().values()) == {1: 2}
