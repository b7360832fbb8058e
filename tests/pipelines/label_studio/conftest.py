"""A stand-in for Label Studio, and a pipeline that asks there."""

import pytest
from label_studio_server import LEGACY, StandIn

from streamboost.pipelines.config.file import parse


@pytest.fixture(scope="session")
def server():
    server = StandIn()
    yield server
    server.close()


@pytest.fixture
def studio(server):
    server.begin_anew()
    return server


@pytest.fixture
def make_config(studio, tmp_path):
    def make(**sections):
        tables = {
            "pipeline": {"name": "asks", "batch_records": 10},
            "schema": {"numeric": ["a", "b"]},
            "source": {"connector": "sqlite", "stream": "records"},
            "query": {"budget": 0.5},
            "label_studio": {"url": studio.url, "project": 7, "token": "${TOKEN}"},
            "monitor": {"publish_every": 0.0},
        }
        config = parse(tables | sections, tmp_path, environment={"TOKEN": LEGACY})
        config.state.mkdir(exist_ok=True)
        return config

    return make


@pytest.fixture
def config(make_config):
    return make_config()
