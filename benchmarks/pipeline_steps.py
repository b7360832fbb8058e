"""Time of a pipeline by step of its loop."""

import time
from collections import Counter

from streamboost.connectors.messages.schema import Schema
from streamboost.learner.learner import StreamLearner
from streamboost.pipelines.runner import pipeline as step
from streamboost.pipelines.runner.batch_reader import BatchReader
from streamboost.pipelines.runner.label_join import LabelJoin
from streamboost.pipelines.runner.pipeline import Pipeline
from streamboost.pipelines.runner.runner import Runner

STEPS = {
    "poll": (BatchReader, "poll"),
    "decode": (Schema, "decode"),
    "score": (StreamLearner, "score"),
    "query": (StreamLearner, "query"),
    "join": (LabelJoin, "add_records"),
    "write messages": (step, "encode_predictions"),
    "chain the digest": (step, "chain_digest"),
    "the step's rest": (Pipeline, "step"),
    "begin the commit": (Runner, "commit"),
    "wait for the commit": (Runner, "await_commit"),
}
"""The steps of the loop; the time of one within another counts for the inner one only."""

BESIDE = "other threads"
"""Time of commits and of client threads, which run outside the loop's thread."""


class Steps:
    """Measures what the steps of the loop take, on the clock and of its thread's CPU."""

    def __init__(self):
        self.wall, self.cpu = Counter(), Counter()
        self._originals = []
        self._within = [(0.0, 0.0)]  # time of inner steps, for each running step
        self._begun = (0.0, 0.0)

    def __enter__(self):
        for name, (owner, attribute) in STEPS.items():
            original = getattr(owner, attribute)
            self._originals.append((owner, attribute, original))
            setattr(owner, attribute, self._timed(name, original))
        return self

    def begin(self):
        """Leave out what has been: the first batch loads the kernels."""
        self.wall.clear()
        self.cpu.clear()
        self._begun = (time.process_time(), time.thread_time())

    def __exit__(self, *error):
        process, own = self._begun
        self.cpu[BESIDE] = time.process_time() - process - (time.thread_time() - own)
        for owner, attribute, original in self._originals:
            setattr(owner, attribute, original)

    def _timed(self, name, original):
        def timed(*arguments, **more):
            wall, cpu = time.perf_counter(), time.thread_time()
            self._within.append((0.0, 0.0))
            try:
                return original(*arguments, **more)
            finally:
                wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
                inner_wall, inner_cpu = self._within.pop()
                self.wall[name] += wall - inner_wall
                self.cpu[name] += cpu - inner_cpu
                outer_wall, outer_cpu = self._within[-1]
                self._within[-1] = (outer_wall + wall, outer_cpu + cpu)

        return timed
