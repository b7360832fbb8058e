import dataclasses
import json
import signal
import time
from contextlib import closing

import pytest

from streamboost.connectors.sqlite.stream import SqliteSource
from streamboost.errors import StateError
from streamboost.pipelines.demo import compare as demo
from streamboost.pipelines.shutdown import StopToken

pytestmark = pytest.mark.slow

FIELDS = {
    "strategy",
    "records",
    "labels",
    "accuracy",
    "accuracy_second_half",
    "balanced_accuracy",
    "seconds",
    "records_per_second",
    "forecast",
}


def play(folder, strategies=("margin",), seed=0, budget=0.1, show=lambda progress: None):
    rows = demo.run_demo(strategies, folder, seed=seed, budget=budget, stop=StopToken(), show=show)
    return {row.strategy: row for row in rows}


def read(path, stream):
    with closing(SqliteSource(path, stream)) as source:
        return [message.payload for message in source.poll(10_000)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def played(folder):
    """The rows of all strategies that buy no label of every record, and the progress shown."""
    seen = []
    strategies = [strategy for strategy in demo.STRATEGIES if strategy != "all"]
    return play(folder, strategies, show=seen.append), seen


@pytest.fixture(scope="module")
def rows(played):
    return played[0]


def test_every_row_is_over_all_records(rows):
    assert list(rows) == ["margin", "random", "repeat_last"]
    assert {row.records for row in rows.values()} == {2310}
    assert {frozenset(dataclasses.asdict(row)) for row in rows.values()} == {frozenset(FIELDS)}


def test_no_more_labels_are_bought_than_the_budget_allows(rows):
    assert 200 <= rows["margin"].labels <= 231
    assert 200 <= rows["random"].labels <= 231
    assert rows["repeat_last"].labels == rows["margin"].labels


def test_margin_queries_beat_random_ones_and_both_the_last_label(rows):
    later = {name: row.accuracy_second_half for name, row in rows.items()}
    assert later["margin"] >= 0.95
    assert later["margin"] > later["random"] > 0.9 > 0.2 > later["repeat_last"]


@pytest.mark.slow
def test_all_labels_are_the_last_row_and_the_best(tmp_path):
    rows = play(tmp_path, demo.STRATEGIES)
    assert list(rows) == ["margin", "random", "repeat_last", "all"]
    assert (rows["all"].records, rows["all"].labels) == (2310, 2310)
    assert frozenset(dataclasses.asdict(rows["all"])) == FIELDS
    assert rows["all"].accuracy_second_half > max(0.97, rows["margin"].accuracy_second_half)


def test_the_seed_drives_the_learner_and_never_the_order(tmp_path):
    order = {}
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        stop = StopToken()
        list(
            demo.run_demo(
                ("margin",),
                tmp_path / name,
                seed=seed,
                budget=0.1,
                stop=stop,
                show=lambda progress, stop=stop: progress.records >= 300 and stop.request_stop(),
            )
        )
        log = tmp_path / name / "margin" / "state" / "log.db"
        order[name] = [
            [json.loads(payload)["id"] for payload in read(log, stream)]
            for stream in ("predictions", "requests")
        ]
    assert order["one"] == order["same"]
    assert order["one"][0] == order["other"][0] == [str(i) for i in range(300)]
    assert order["one"][1] != order["other"][1]


@pytest.mark.slow
def test_the_budget_sets_the_share(tmp_path):
    row = play(tmp_path, budget=0.02)["margin"]
    assert 35 <= row.labels <= 46


def test_repeat_last_gives_the_newest_label_of_earlier_batches(rows, folder):
    truth = demo.load_true_labels()
    requests = read(folder / "margin" / "state" / "log.db", "requests")
    asked = [int(json.loads(payload)["id"]) for payload in requests]
    hits = 0
    for i in range(2310):
        # In the batch that begins at b, the labels of records before b - 20 have been served.
        known = [index for index in asked if index + 20 < i - i % 10]
        hits += bool(known) and truth[known[-1]] == truth[i]
    assert rows["repeat_last"].accuracy == pytest.approx(hits / 2310)


def test_progress_is_shown_batch_by_batch(played):
    row = played[0]["margin"]
    seen = [progress for progress in played[1] if progress.strategy == "margin"]
    assert [progress.records for progress in seen if progress.records % 10 == 0][:3] == [10, 20, 30]
    last = seen[-1]
    assert (last.strategy, last.records, last.of) == ("margin", 2310, 2310)
    assert (last.labels, last.accuracy) == (row.labels, row.accuracy)
    assert last.trees > 0


def test_a_stop_ends_the_demo_without_a_row(tmp_path):
    stop = StopToken()
    rows = list(
        demo.run_demo(
            demo.STRATEGIES,
            tmp_path,
            seed=0,
            budget=0.1,
            stop=stop,
            show=lambda progress: progress.records >= 100 and stop.request_stop(),
        )
    )
    assert rows == []


def test_an_earlier_demo_is_not_gone_on_with(rows, folder):
    with pytest.raises(StateError, match="has an earlier demo"):
        play(folder)


def test_the_command_prints_one_object_a_row(streamboost_command, tmp_path):
    out, err = streamboost_command(
        "demo", "--json", "--strategy", "repeat_last", "--budget", "0.02", "--state", "kept"
    )
    (line,) = out.splitlines()
    assert json.loads(line).keys() == FIELDS
    assert "records, accuracy" in err, "where there is no terminal, a line now and then"
    assert list((tmp_path / "kept" / "margin" / "state" / "checkpoints").iterdir())


@pytest.mark.slow
def test_an_interrupted_command_says_so(streamboost_command, tmp_path):
    process = streamboost_command.start("demo", "--state", "kept")
    end = time.monotonic() + 60
    while not (tmp_path / "kept" / "margin" / "pipeline.toml").exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.005)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert err.endswith("interrupted\n")
    assert "Traceback" not in err


@pytest.mark.slow
def test_the_command_prints_a_table(streamboost_command):
    out, _ = streamboost_command("demo", "--strategy", "margin", "--budget", "0.02")
    assert "margin " in out
    assert "2nd half" in out
