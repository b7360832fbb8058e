"""Decisions of a pipeline: configured by file and by command, journalled, and replayed."""

import pytest
from serving import make_file, put, read, site_of, some_records

from streamboost.errors import ConfigurationError
from streamboost.pipelines.app.inspect import describe_pipeline
from streamboost.pipelines.app.run import run
from streamboost.pipelines.app.verify import verify_replay
from streamboost.pipelines.config.file import load
from streamboost.pipelines.state.commands import Command, queue_command
from tests.pipelines.command import Command as Cli

COSTS = "[decision]\ncosts = { left = { right = 1e9 } }\n"


def feed(config, start, n=60):
    records = some_records(n, start=start)
    put(config, "records", records)
    labels = [{"id": r["id"], "label": "left" if r["a"] > r["b"] else "right"} for r in records]
    put(config, "labels", labels)
    run(config, until_idle=True)
    return read(config, "predictions")[-n:]


def decided(predictions):
    return {one.get("decision", "nobody decides") for one in predictions}


def test_a_file_says_what_is_decided_on_and_may_be_changed(tmp_path):
    file = make_file(tmp_path / "job", COSTS)
    config = load(file)
    assert decided(feed(config, 0)[:20]) == {None}, "before the first label"
    assert decided(feed(config, 1_000)) == {"left"}
    file.write_text(file.read_text().replace(COSTS, "[decision]\nthreshold = { left = 1 }\n"))
    assert decided(feed(load(file), 2_000)) == {"right"}
    file.write_text(file.read_text().replace("[decision]\nthreshold = { left = 1 }\n", ""))
    assert decided(feed(load(file), 3_000)) == {"nobody decides"}
    verify_replay(load(file))


@pytest.mark.slow
def test_a_command_changes_decisions_and_a_restart_keeps_them(tmp_path):
    config = load(make_file(tmp_path / "job"))
    feed(config, 0)
    queue_command(config.state, Command("decide", decision={"costs": {"right": {"left": 1e9}}}))
    assert decided(feed(config, 1_000)) == {"right"}
    assert decided(feed(config, 2_000)) == {"right"}, "the file says nothing new"
    queue_command(config.state, Command("decide", decision={}))
    assert decided(feed(config, 3_000)) == {"nobody decides"}
    verify_replay(config)


def test_a_command_that_nothing_can_be_decided_by_is_refused(tmp_path):
    config = load(make_file(tmp_path / "job"))
    feed(config, 0)
    queue_command(config.state, Command("decide", decision={"costs": {"left": {"left": 3}}}))
    assert decided(feed(config, 1_000)) == {"nobody decides"}


@pytest.mark.slow
def test_the_cost_is_among_the_honest_figures(tmp_path):
    config = load(make_file(tmp_path / "job", COSTS))
    for start in range(0, 300, 60):
        feed(config, start)
    cost = describe_pipeline(config.state)["checkpoint"]["evaluation"]["since_start"]["cost"]
    assert 0.0 <= cost["low"] <= cost["value"] <= cost["high"]
    out, _ = Cli(tmp_path / "job")("inspect", "p.toml")
    assert "mean cost of a decision" in out


@pytest.mark.slow
def test_the_command_line_and_the_api_have_a_pipeline_decide(tmp_path):
    file = make_file(tmp_path / "job")
    config, command = load(file), Cli(tmp_path / "job")
    feed(config, 0)
    out, _ = command("control", "p.toml", "decide", "costs.left.right=1e9", "costs.right.left=1")
    assert '{"costs":{"left":{"right":1000000000.0},"right":{"left":1}}}' in out
    assert decided(feed(config, 1_000)) == {"left"}
    with site_of(file) as site:
        body = {"records": some_records(1)}
        asked = site.program().post("/api/v1/pipelines/test/predict", json=body).json()
        assert asked["predictions"][0]["decision"] == "left"
        told = {"command": "decide", "decision": {"threshold": {"left": 1}}}
        place = "/api/v1/pipelines/test/commands"
        assert site.program().post(place, json=told).status_code == 202
        told["decision"] = {"costs": {"left": {"left": 1}}}
        refused = site.program().post(place, json=told)
        assert refused.status_code in (409, 422)
        assert "the right decision costs nothing" in refused.json()["detail"]
    assert decided(feed(config, 2_000)) == {"right"}
    _, err = command("control", "p.toml", "decide", "costs.left", code=2)
    assert "give costs.TRUE_CLASS.DECIDED_CLASS=10" in err


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("costs = { a = { a = 1 } }", "the right decision costs nothing"),
        ("costs = { a = 3 }", "name the classes that may be decided on"),
        ("threshold = { a = 2 }", "above 0 and at most 1"),
        ("threshold = { a = 0.5 }\ncosts = { a = { b = 2 } }", "both are given"),
    ],
)
def test_a_file_that_nothing_can_be_decided_by_is_refused(tmp_path, section, said):
    with pytest.raises(ConfigurationError, match=said):
        load(make_file(tmp_path / "job", f"[decision]\n{section}\n"))
