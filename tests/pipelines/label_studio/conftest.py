"""A pipeline whose requests go to Label Studio."""

import pytest

from streamboost.pipelines.config.file import parse
from tests.label_studio.front import LEGACY


@pytest.fixture
def make_config(studio, tmp_path):
    def make(**sections):
        tables = {
            "pipeline": {"name": "asks", "batch_records": 10},
            "schema": {"numeric": ["a", "b"]},
            "source": {"connector": "sqlite", "stream": "records"},
            "query": {"budget": 0.5},
            "label_studio": {"url": studio.url, "project": studio.project, "token": "${TOKEN}"},
            "monitor": {"publish_every": 0.0},
        }
        config = parse(tables | sections, tmp_path, environment={"TOKEN": LEGACY})
        config.state.mkdir(exist_ok=True)
        return config

    return make


@pytest.fixture
def config(make_config):
    return make_config()
