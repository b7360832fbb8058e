"""Errors of the status file do not affect the pipeline. Errors of the pipeline are published."""

import os
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from streamboost.errors import GapError
from streamboost.pipelines.runner.replay import recover
from streamboost.pipelines.status import file as status_file
from streamboost.pipelines.status.file import FILE
from tests.pipelines.publishing import answer, open_in, published, run
from tests.pipelines.watching import committing


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(status_file, "BUSY_SECONDS", 0.01)


def as_it_goes(world):
    return (
        world.transaction.last_committed_batch(),
        world.read("predictions"),
        world.pipeline.digest,
    )


@pytest.mark.parametrize("hurt", ["damaged", "a folder", "locked", "full", "no folder"])
@pytest.mark.quick_once
def test_nothing_that_becomes_of_the_file_reaches_the_pipeline(
    make_world, make_records, tmp_path, hurt, caplog
):
    worlds = make_world(), make_world()
    records, truth = make_records(300)
    for world in worlds:
        world.feed(records)
        answer(world, truth, range(100))
    alone, watched = worlds
    alone.run()
    folder, path = tmp_path, tmp_path / FILE
    if hurt == "damaged":
        path.write_bytes(os.urandom(20_000))
    elif hurt == "a folder":
        path.mkdir()
    elif hurt == "no folder":
        folder = tmp_path / "nowhere"
    with closing(sqlite3.connect(tmp_path / "other.db", isolation_level=None)) as other:
        if hurt == "locked":
            run(make_world(), folder)
            other.execute("ATTACH ? AS status", (str(path),))
            other.execute("BEGIN IMMEDIATE")
            other.execute("CREATE TABLE status.held (a)")
        with published(watched.loop, folder) as publisher:
            if hurt == "full":
                publisher._writer._file.write = _no_space
            watched.run()
        if hurt == "locked":
            other.execute("ROLLBACK")
    assert as_it_goes(watched)[1:] == as_it_goes(alone)[1:]
    warned = caplog.text.count("the status cannot be published")
    assert warned == (0 if hurt == "damaged" else 1)


def _no_space(content):
    raise sqlite3.OperationalError("database or disk is full")


def test_what_cannot_be_told_is_logged_once_and_stops_nothing(grown, tmp_path, caplog, monkeypatch):
    world, _ = grown
    evaluation = type(world.pipeline.learner.evaluation)
    monkeypatch.setattr(evaluation, "both_reports", lambda self: 1 / 0)
    run(world, tmp_path)
    assert len(world.read("predictions")) == 300
    assert caplog.text.count("the status cannot be published") == 1


@pytest.mark.slow
def test_publishing_changes_nothing_of_what_a_pipeline_learns(make_world, make_records, tmp_path):
    records, truth = make_records(300)
    digests = []
    for watched in (False, True):
        world = make_world(promotion="better", n_evaluation_labels=5)
        world.feed(records)
        answer(world, truth, range(150))
        if watched:
            run(world, tmp_path)
        else:
            world.run()
        digests.append(world.pipeline.digest)
        arrays, _ = world.loop.snapshot()
    assert digests[0] == digests[1]
    assert np.isfinite(arrays["join.pinned"]).all()


@pytest.mark.slow
def test_nothing_is_published_while_nothing_changes(grown, tmp_path):
    world, _ = grown
    with published(world.loop, tmp_path) as publisher:
        world.run()
        writer = publisher._writer
        writer.wait_until_idle(10)
        taken = []
        take = writer.submit
        writer.submit = lambda publication: (taken.append(publication), take(publication))
        for _ in range(5):
            publisher.between_batches()
            writer.wait_until_idle(10)
        # That it is still there is said all the same.
        news = [one for one in taken if one.documents.keys() != {"heartbeat"}]
        assert len(news) <= 2
        publisher.on_error("the lights are out")
        publisher.between_batches()
        assert taken[-1].documents["trouble"]["text"] == "the lights are out"


@pytest.mark.slow
def test_what_could_not_be_written_is_written_later_although_no_batch_comes(
    grown, tmp_path, reader
):
    world, _ = grown
    with published(world.loop, tmp_path) as publisher:
        world.run()
        publisher._writer.wait_until_idle(10)
        with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            publisher.on_error("the lights are out")
            publisher.between_batches()
            publisher._writer.wait_until_idle(10)
            assert reader.document("trouble") == {}
            other.execute("ROLLBACK")
        for _ in range(2):
            publisher.between_batches()
            publisher._writer.wait_until_idle(10)
        assert reader.document("trouble")["text"] == "the lights are out"


@pytest.mark.slow
def test_what_is_replayed_is_not_timed(grown, tmp_path):
    world, _ = grown
    world.run()
    loop = world.fresh()
    recover(loop, None, world.pipeline.sequence)
    assert loop.stage_timer.quantiles() == {}


def test_the_loop_spends_but_a_fraction_of_its_time_on_it(grown, tmp_path, monkeypatch):
    world, _ = grown
    with published(world.loop, tmp_path) as publisher:
        cpu = iter(range(0, 1_000, 3))
        monkeypatch.setattr("streamboost.pipelines.status.publisher.time.thread_time", cpu.__next__)
        publisher._clock = lambda: 1_000.0
        publisher._publish_status("running")
        assert publisher._due == 1_000.0 + 3 / 0.02


def test_what_takes_long_to_write_is_written_less_often_but_is_not_silent(grown, tmp_path):
    world, _ = grown
    with published(world.loop, tmp_path) as publisher:
        publisher._clock = lambda: 1_000.0
        publisher._publish_status("running")
        publisher._writer.wait_until_idle(10)
        due = []
        for cost in (0.0, 0.075, 60.0):
            publisher._writer.cost, publisher._due = cost, 1_001.0
            for seconds in (1.0, 2.0, 3.0, 10.0):
                publisher._clock = lambda seconds=seconds: 1_000.0 + seconds
                if publisher.is_work_due:
                    due.append(seconds)
                    break
        assert due == [1.0, 3.0, 10.0]


@pytest.mark.slow
def test_while_a_commit_is_tried_again_that_is_said_and_what_is_committed_stays(
    grown, tmp_path, reader
):
    world, _ = grown
    states = []
    with published(world.loop, tmp_path) as publisher:
        take = publisher._writer.submit

        def taken(publication):
            states.append((publication.documents["pipeline"]["state"], publication.requests))
            take(publication)
            publisher._writer.wait_until_idle(10)

        publisher._writer.submit = taken
        world.transaction.fail_next_commit()
        world.run()
    assert ("retrying", None) in states
    assert states[-1][0] == "stopped"
    assert "aborted on demand" in reader.document("trouble")["text"]
    assert {request["id"] for request in reader.requests()} == open_in(world)


@pytest.mark.slow
def test_the_sequence_told_is_that_of_the_requests_told(grown, tmp_path, reader):
    world, _ = grown
    told = []
    with published(world.loop, tmp_path) as publisher:

        def look(effects):
            world.loop.is_committed = False  # as while the next batch is being committed
            publisher.between_batches()
            publisher._writer.wait_until_idle(10)
            told.append((reader.document("pipeline")["sequence"], reader.requests()))
            world.loop.is_committed = True

        world.loop.observers.append(committing(look))
        world.run()
    assert {sequence for sequence, _ in told} > {0}
    for sequence, requests in told:
        asked = {one["id"] for one in world.read("requests") if one["sequence"] <= sequence}
        assert asked & open_in(world) <= {one["id"] for one in requests}


def test_a_gap_is_marked(world, make_records, tmp_path, reader, monkeypatch):
    world.feed(make_records(50)[0])
    world.run()
    loop, sequence = world.fresh(), world.pipeline.sequence
    with published(loop, tmp_path):
        with monkeypatch.context() as patch:
            patch.setattr(loop.intake, "reread_batch", _no_records)
            recover(loop, None, sequence, on_data_loss="continue")
        loop.intake.seek(world.loop.intake.positions())
        world.feed(make_records(10, start=50)[0])
        loop.run(until_idle=True)
    (gap,) = [mark["text"] for mark in reader.chart_marks() if mark["kind"] == "gap"]
    assert gap == f"nothing was learned from batches 1 to {sequence}, which are lost"


def _no_records(inputs, read):
    raise GapError("the records are gone")
