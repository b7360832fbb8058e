"""Pipelines in memory that publish their status."""

import itertools
from contextlib import closing, contextmanager

from streamboost.pipelines.status.publisher import Publisher


@contextmanager
def published(pipeline, folder):
    """Publish the status of a pipeline meanwhile, whenever it may be."""
    clock = itertools.count(0, 1_000).__next__
    publisher = Publisher(pipeline, folder, {"name": "test"}, clock=clock)
    pipeline.observers.append(publisher)
    pipeline.rehearsals.append(publisher.replayed)
    pipeline.turns.append(publisher.turn)
    pipeline.on_trouble.append(publisher.trouble)
    with closing(publisher):
        yield publisher


def run(world, folder):
    with published(world.pipeline, folder):
        world.run()


def open_in(world):
    return set(world.pipeline.join.open_requests)


def answer(world, truth, ids):
    world.feed(labels=[{"id": id, "label": truth[int(id)]} for id in ids])
