"""Scorers on a real broker, in one process: a rebalance loses no record."""

from types import SimpleNamespace

import numpy as np
import pytest

from streamboost.connectors.kafka.admin import add_partitions
from streamboost.errors import DeletedError, UnavailableError
from streamboost.pipelines.app.check import check_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.state.commands import Command, queue_command
from tests.pipelines.scored_distributed import (
    assert_budgets_were_kept,
    assert_nothing_is_lost_or_doubled,
    assert_progress_goes_on,
    assert_recorded_predictions_are_evaluated,
    turn,
    until_scored,
)
from tests.waiting import until

pytestmark = pytest.mark.kafka


def assert_all_is_well(world):
    assert_nothing_is_lost_or_doubled(world)
    assert_budgets_were_kept(world)
    assert_progress_goes_on(world)


def test_a_scorer_predicts_and_the_learner_learns_what_it_asked(make_world, scorer):
    world = make_world()
    one = scorer(world)
    for n in (40, 100, 40):
        world.send(n)
        until_scored(world, one)
        world.answer_all()
        run(world.config, until_idle=True)
    asked = assert_nothing_is_lost_or_doubled(world)
    assert world.known()["committee"]["labels"] == len(asked) > 3
    assert world.known()["ledger"]["records"] == 200
    assert max(p["version"] for _, p in world.read("predictions")[0]) > 0


@pytest.mark.slow
def test_recorded_predictions_are_evaluated_by_the_learner(make_world, scorer):
    world = make_world(recorded=True)
    one = scorer(world)
    for n in (40, 100, 140):
        world.send(n)
        until_scored(world, one)
        world.answer_all()
        run(world.config, until_idle=True)
    assert_nothing_is_lost_or_doubled(world)
    assert_recorded_predictions_are_evaluated(world)
    assert "bit for bit" in verify_replay(world.config)
    (found,) = [found for found in check_pipeline(world.config) if found.part == "model"]
    assert found.ok, found.text


@pytest.mark.slow
def test_what_was_polled_before_something_failed_is_polled_again(make_world, scorer):
    world = make_world()
    one = scorer(world)
    until_scored(world, one)
    use, failed = one._score_polled_batch, []

    def fail(polled):
        if polled.messages and not failed:
            failed.append(True)
            raise UnavailableError("the broker is away")
        return use(polled)

    one._score_polled_batch = fail
    world.send(20)
    until_scored(world, one)
    assert failed
    assert_all_is_well(world)


@pytest.mark.slow
def test_a_class_that_is_merged_is_predicted_no_more_and_the_replay_is_the_same(make_world, scorer):
    world = make_world()
    one = scorer(world)
    for _ in range(3):
        world.send(60)
        until_scored(world, one)
        world.answer_all()
        run(world.config, until_idle=True)
    before = len(world.read("predictions")[0])
    queue_command(world.config.state, Command("merge", None, "a", "b"))
    newest = run(world.config, until_idle=True)
    until(lambda: (turn(one), one._model_log.newest.number == newest)[-1], 30)
    world.send(60)
    until_scored(world, one)
    world.answer_all()
    run(world.config, until_idle=True)
    labels = [p["label"] for _, p in world.read("predictions")[0]]
    assert {*labels[before - 20 : before]} == {"a", "b"}
    assert {*labels[before:]} == {"b"}
    assert "bit for bit" in verify_replay(world.config)


@pytest.mark.slow
def test_the_learner_asks_again_among_the_requests_of_scorers(make_world, scorer):
    world = make_world(query='relabel = 0.3\nstrategy = "random"')
    one, rng = scorer(world), np.random.default_rng(0)
    plain = SimpleNamespace(normal=lambda size: rng.choice([-5.0, 5.0], (size[0], 1)).repeat(4, 1))
    world._rng = plain
    for n in range(5):
        world.send(120)
        until_scored(world, one)
        for id_ in list(world.truth)[-120::4] if n > 2 else []:  # wrong answers, against all before
            world.truth[id_] = "ba"[world.truth[id_] == "b"]
        world.answer_all()
        run(world.config, until_idle=True)
    requests = [r for found in world.read("requests").values() for _, r in found]
    again = [r for r in requests if "excluded_annotators" in r]
    first = {r["id"] for r in requests if "excluded_annotators" not in r}
    assert again
    assert {r["id"] for r in again} <= first
    ledger = world.known()["ledger"]
    assert (ledger["requests"], ledger["again"]) == (len(requests), len(again))
    assert ledger["requests"] <= 0.2 * world.sent
    assert "bit for bit" in verify_replay(world.config)


@pytest.mark.slow
def test_a_commit_of_which_nobody_knows_is_settled_first(make_world, scorer, monkeypatch):
    world = make_world()
    one = scorer(world)
    until_scored(world, one)
    member = one._member
    written = []

    def commit_and_lose_the_answer(producer, *rest):
        type(member)._write_transaction(member, producer, *rest)
        written.append(True)
        monkeypatch.undo()
        raise UnavailableError("the answer was lost")

    monkeypatch.setattr(member, "_write_transaction", commit_and_lose_the_answer)
    world.send(20)
    until_scored(world, one)
    assert written
    assert_all_is_well(world)


@pytest.mark.slow
def test_a_member_that_joins_takes_over_what_the_first_one_had(make_world, scorer):
    world = make_world(partitions=4)
    one, other = scorer(world), scorer(world)
    until_scored(world, one)
    until(lambda: (turn(one), turn(other), other.tasks)[-1], 60)
    world.send(40)
    until_scored(world, one, other)
    assert not one.tasks.keys() & other.tasks.keys()
    other.close()
    world.send(40)
    until_scored(world, one)
    assert_all_is_well(world)


@pytest.mark.slow
def test_a_partition_waits_until_it_has_places_to_write_to(make_world, scorer):
    world = make_world()
    one = scorer(world)
    until_scored(world, one)
    add_partitions(world.cluster, {f"{world.name}.records": 3})
    world.partitions = 3
    world.renew()
    world.send(30)
    until(lambda: (turn(one), one.is_waiting)[-1], 60)
    assert 2 not in one.tasks
    run(world.config, until_idle=True)
    until_scored(world, one)
    assert_all_is_well(world)


@pytest.mark.slow
@pytest.mark.parametrize("on_data_loss", ["fail", "continue"])
def test_records_that_were_deleted_unread_stop_the_scorer_or_are_counted(
    make_world, scorer, on_data_loss
):
    world = make_world(partitions=1, pipeline=f'on_data_loss = "{on_data_loss}"')
    one = scorer(world)
    until_scored(world, one)
    one.close()
    world.send(30)
    world.flush()
    world.delete_before(35)
    other = scorer(world)
    if on_data_loss == "fail":
        with pytest.raises(DeletedError, match="offsets 20 to 34 of partition 0"):
            until(lambda: other.run_once() or False, 60)
        return
    until(lambda: (turn(other), other.tasks and other.tasks[0].next >= 50)[-1], 60)
    run(world.config, until_idle=True)
    known = world.known()
    assert known["deleted_unread"] == 15
    assert known["ledger"]["records"] == 35
