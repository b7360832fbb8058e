"""Scorers and a learner on a real broker, killed and frozen while records arrive.

No record is lost or duplicated. The long form has as many events as the environment variable
STREAMBOOST_KILLS says, at least 40.
"""

import random
import signal
import threading
import time

import pytest
from kafka.errors import KafkaError

from streamboost.connectors.kafka.admin import add_partitions
from streamboost.pipelines.distributed.topics import scoring_log_topic
from tests.encoders import tiny
from tests.pipelines.killing import KILLS, verified
from tests.pipelines.scored_distributed import (
    SESSION,
    TRANSACTION,
    Apart,
    assert_budgets_were_kept,
    assert_nothing_is_lost_or_doubled,
    assert_progress_goes_on,
    assert_recorded_predictions_are_evaluated,
)
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

EVENTS = max(KILLS, 40) if KILLS else 9
SCORERS = 3
LOOK = 10.0
"""How often a broker looks for transactions that are to be undone."""
TAKEOVER = SESSION + TRANSACTION + LOOK
SLACK = 60.0
"""What starting a process and a busy machine take besides."""
BUSY = 15.0
"""What a busy machine takes besides where nothing has to start."""


class Chaos:
    """Does one thing after the other to the processes of a pipeline."""

    def __init__(self, world, broker, seed):
        self.world = world
        self.broker = broker
        self.draw = random.Random(seed)
        self.learner = world.start("learn")
        self.scorers = [world.start("score") for _ in range(SCORERS)]
        self.gone = []

    def events(self, n):
        """Return `n` events, each kind as often as the others, in an order that is drawn."""
        kinds = [self.kill, self.freeze, self.learner_dies, self.term]
        kinds += [self.learner_is_taken_over, self.freeze_briefly]
        kinds += [self.broker_dies] if self.broker else []
        drawn = [kinds[i % len(kinds)] for i in range(n - 1)]
        self.draw.shuffle(drawn)
        drawn.insert(n // 2, self.partitions_join)
        return drawn

    def _any(self):
        return self.draw.randrange(len(self.scorers))

    def kill(self):
        i = self._any()
        self.gone.append((self.scorers[i].pid, time.time() * 1_000))
        self.scorers[i].kill()
        self.scorers[i].wait()
        self.scorers[i] = self.world.start("score")

    def term(self):
        i = self._any()
        self.world.stop(self.scorers[i])
        self.scorers[i] = self.world.start("score")

    def freeze(self, seconds=SESSION + 4.0):
        """Suspend a scorer until its partitions are reassigned, then resume the scorer."""
        process = self.scorers[self._any()]
        self.gone.append((process.pid, time.time() * 1_000))
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def freeze_briefly(self):
        self.freeze(self.draw.uniform(0.1, SESSION))

    def learner_dies(self):
        self.learner.kill()
        self.learner.wait()
        self.learner = self.world.start("learn")

    def learner_is_taken_over(self):
        self.world.stop(self.learner)
        self.learner = self.world.start("learn")

    def broker_dies(self):
        self.broker.kill()
        self.broker.start()

    def partitions_join(self):
        world = self.world
        add_partitions(world.cluster, {f"{world.name}.records": world.partitions + 2})
        world.partitions += 2

    def goes_on(self):
        """Wait until every partition has had records predicted that came from now on."""
        tick = int(time.time() * 1_000)
        began = time.monotonic()

        def has_come():
            try:
                entries = self.world.read(scoring_log_topic(self.world.name))
            except KafkaError:  # a broker that is only just there knows of no leaders yet
                return False
            newest = [found[-1][1]["tick"] for found in entries.values() if found]
            return len(newest) == self.world.partitions and min(newest) > tick

        until(has_come, TAKEOVER + SLACK)
        return time.monotonic() - began


def takeovers(world, gone):
    """Return the seconds without a batch of each partition whose scorer was killed or suspended.

    `gone` holds the process id of each such scorer and the time in milliseconds. The times of
    batches are those of the scoring log.
    """
    found = []
    for entries in world.read(scoring_log_topic(world.name)).values():
        done = [(entry["tick"], int(entry["worker"].split(":")[1])) for _, entry in entries]
        for pid, when in gone:
            before = [worker for tick, worker in done if tick <= when]
            if before and before[-1] == pid:
                found.append((next(tick for tick, _ in done if tick > when) - when) / 1_000)
    return found


def feeding(world, over):
    """Write records until it is over."""
    while not over.is_set():
        try:
            world.send(4 * world.partitions)
        except Exception:
            # A record without an acknowledgement may have been written or not: see `world.send`.
            over.wait(0.5)
        over.wait(0.15)


@pytest.mark.parametrize("recorded", [False, True])
def test_after_kills_stops_and_partitions_that_join_nothing_is_lost_or_doubled(
    tmp_path, kafka_servers, request, recorded
):
    broker = request.getfixturevalue("broker") if "127.0.0.1" in kafka_servers else None
    encoder = tiny.write_encoder(tmp_path / "model")
    world = Apart(tmp_path, kafka_servers, encoder=encoder, recorded=recorded)
    over = threading.Event()
    feeder = threading.Thread(target=feeding, args=(world, over), daemon=True)
    try:
        chaos = Chaos(world, broker, KILLS)
        feeder.start()
        with world.answered():
            chaos.goes_on()
            for event in chaos.events(EVENTS):
                print(f"{event.__name__}: ", end="")  # also of one after which nothing continues
                event()
                print(f"all partitions go on after {chaos.goes_on():.1f} s")
            over.set()
            feeder.join()
            world.wait()
            asked = assert_nothing_is_lost_or_doubled(world)
            assert_budgets_were_kept(world)
            assert_progress_goes_on(world)
            stood_still = takeovers(world, chaos.gone)
            print(f"partitions stood still for {sorted(stood_still)} s")
            assert stood_still
            assert max(stood_still) <= TAKEOVER + BUSY
            world.stop(*chaos.scorers)
            until(lambda: world.labels_are_learned(len(asked)))
        world.stop(chaos.learner)
    finally:
        over.set()
        world.close()
    known = world.known()
    assert known["committee"]["labels"] == len(asked), "each answer was learned once"
    assert known["join"]["answered"] == known["ledger"]["requests"] == len(asked)
    assert known["ledger"]["records"] == world.sent
    if recorded:
        assert_recorded_predictions_are_evaluated(world)
    assert f"batches 1 to {known['sequence']} replayed: bit for bit" in verified(world.file)
