"""Pipelines with distributed scoring on a real broker, with scorers in this process."""

from contextlib import ExitStack, closing

import pytest

from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.score import build_scorer
from streamboost.pipelines.shutdown import StopToken
from tests.pipelines.scored_distributed import Apart


@pytest.fixture
def make_world(tmp_path, kafka_servers):
    """Return a function that makes a pipeline, whose learner has published what there is."""
    with ExitStack() as stack:

        def make(partitions=2, **more):
            world = Apart(tmp_path, kafka_servers, partitions, **more)
            stack.callback(world.close)
            world.send(20)
            world.flush()
            run(world.config, until_idle=True)
            return world

        yield make


@pytest.fixture
def scorer(make_world):
    """Return a function that makes a scorer of a world; all leave the group at the end."""
    with ExitStack() as stack:
        yield lambda world: stack.enter_context(closing(build_scorer(world.config, StopToken())))
