"""Queries of examples/monitoring against the metrics that a running pipeline exports."""

import itertools
import json
import math
import re
import sys
import threading
import urllib.error
import urllib.request
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from waiting import until

from streamboost.connectors.messages.outgoing import Reason
from streamboost.connectors.sqlite.stream import SqliteSink
from streamboost.evaluation.decisions import Decisions
from streamboost.learner.schedule import Kind
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.monitoring.metrics import Metrics
from streamboost.pipelines.runner.label_join import IGNORED
from streamboost.pipelines.shutdown import StopToken
from tests.ports import free_ports

FOLDER = Path(__file__).parents[3] / "examples" / "monitoring"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
NAME = r"\b((?:streamboost|process)_\w+)"


def queries():
    """Yield the location and the expression of every query of the dashboard and the alerts."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']!r}", target["expr"]
    for annotation in DASHBOARD["annotations"]["list"]:
        yield f"annotation {annotation['name']!r}", annotation["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']!r}", variable["definition"]
    yaml = pytest.importorskip("yaml", reason="PyYAML is not here")
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        yield f"alert {rule['alert']}", rule["expr"]


def write(config, rows, truth):
    """Append records and their labels, the first five also with another one, and what is no JSON.

    The first record comes again after the others.
    """
    labels = [
        {"id": r["id"], "label": t, "source": "ann"} for r, t in zip(rows, truth, strict=True)
    ]
    other = {"left": "right", "right": "left"}
    labels += [one | {"label": other[one["label"]]} for one in labels[:5]]
    for stream, messages in (("records", [*rows, rows[0]]), ("labels", labels)):
        with closing(SqliteSink(config.state / "log.db", stream)) as sink:
            sink.write([json.dumps(message).encode() for message in messages] + [b"{"])
            sink.flush()


def scrape(config):
    port, token = config.sections.monitor.port, config.state / "metrics.token"
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics")
    request.add_header("Authorization", f"Bearer {token.read_text().strip()}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


@pytest.fixture(scope="module")
def samples(tmp_path_factory, make_records):
    """The label sets of each metric name, of a pipeline and of one that judges another system."""
    judged = {
        "schema": {"classes": ["left", "right"]},
        "model": {"prediction_field": "score"},
    }
    found = defaultdict(list)
    for name, further in (("watched", {}), ("judged", judged)):
        text = scraped_after_restart(tmp_path_factory.mktemp(name), make_records, further)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found[sample.name].append(sample.labels)
    return found


def scraped_after_restart(folder, make_records, further):
    """Return the metrics of a pipeline that was restarted after a stop."""
    (port,) = free_ports(1)
    tables = further | {
        "pipeline": {"name": "watched", "batch_records": 10},
        "source": {"connector": "sqlite", "stream": "records"},
        "query": {"budget": 0.5},
        "monitor": {"port": port},
    }
    config = parse(tables, folder)
    config.state.mkdir()
    write(config, *make_records(60))
    run(config, until_idle=True)
    write(config, *make_records(40, start=60))
    stop = StopToken()
    thread = threading.Thread(target=run, args=(config,), kwargs={"stop": stop})
    thread.start()

    def answered():
        try:
            text = scrape(config)
        except (OSError, urllib.error.URLError):
            return None
        return text if "streamboost_labels_total 40.0" in text else None

    try:
        return until(answered)
    finally:
        stop.request_stop()
        thread.join()


@pytest.mark.slow
def test_every_metric_that_is_asked_for_is_told(samples):
    for where, query in queries():
        for name in re.findall(NAME, query):
            if name.startswith("process_") and sys.platform != "linux":
                continue
            assert name in samples, f"{where}: {name}"


def test_every_label_that_is_asked_for_is_told(samples):
    given = {"instance", "job"}  # by Prometheus
    for where, query in queries():
        for name, chosen in re.findall(NAME + r"\{([^}]*)\}", query):
            if name.startswith("process_"):
                continue
            for label, comparison, value in re.findall(r'(\w+)(=~|=)"([^"]*)"', chosen):
                if label not in given:
                    assert comparison == "="
                    assert any(one.get(label) == value for one in samples[name]), (where, label)
        known = given.union(*(one for name in re.findall(NAME, query) for one in samples[name]))
        for grouped in re.findall(r"(?:by|ignoring) \(([^)]*)\)", query):
            assert set(re.split(r",\s*", grouped)) <= known, where


def test_the_queries_are_whole():
    for where, query in queries():
        for opening, closing_ in ("()", "{}", "[]"):
            assert query.count(opening) == query.count(closing_), where
        bare = re.findall(r"(?<!rate\()(?<!increase\()\bstreamboost_\w+_total\b", query)
        assert not bare, f"{where}: {bare} only grow: ask for their rate or increase"


def test_the_dashboard_can_be_imported():
    assert DASHBOARD["uid"] == "streamboost"
    assert "id" not in DASHBOARD, "a number of its own would collide with another dashboard's"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert panel["description"]
            assert panel["datasource"]["uid"] == "${datasource}", "not of one machine's Grafana"
            assert panel["fieldConfig"]["defaults"]["unit"]
    taken = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in DASHBOARD["panels"]}
    assert len(taken) == len(ids)


def test_prometheus_is_told_where_the_token_is():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not here")
    settings = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = settings["scrape_configs"]
    assert job["authorization"]["credentials_file"] == "state/metrics.token"
    assert job["job_name"] == "streamboost", "which alerts and dashboard name"
    assert [(FOLDER / name).exists() for name in settings["rule_files"]] == [True]


def test_every_counter_stands_at_0_from_the_start(world):
    """Prometheus takes no increase from a series that begins with its first burst."""
    text = Metrics(world.loop).expose().decode()
    for name, label, values in (
        ("dead_letters", "reason", get_args(Reason)),
        ("labels_ignored", "kind", IGNORED),
        ("trainings", "kind", get_args(Kind)),
    ):
        assert len(values) >= 4
        for value in values:
            assert value_of(text, f'streamboost_{name}_total{{{label}="{value}"}}') == 0.0


def value_of(text, sample):
    (line,) = [line for line in text.splitlines() if line.startswith(sample + " ")]
    return float(line.split()[-1])


def fed(world, make_records):
    """Return the metrics of a pipeline that received records and the requested labels."""
    records, truth = make_records(300)
    metrics = Metrics(world.loop, clock=itertools.count().__next__)
    world.loop.observers.append(metrics)
    for start in range(0, 300, 10):
        rows, labels = records[start : start + 10], truth[start : start + 10]
        world.feed(rows)
        world.run()
        asked = {one["id"] for one in world.read("requests")}
        world.feed(
            (),
            [
                {"id": r["id"], "label": t}
                for r, t in zip(rows, labels, strict=True)
                if r["id"] in asked
            ],
        )
        world.run()
    return metrics.expose().decode(), truth


@pytest.mark.slow
def test_accuracy_is_told_with_its_interval(world, make_records):
    before = Metrics(world.loop).expose().decode()
    assert math.isnan(value_of(before, "streamboost_asked_accuracy_ratio"))
    text, truth = fed(world, make_records)
    low, value, high = (
        value_of(text, f'streamboost_accuracy_{bound}ratio{{predictor="committee"}}')
        for bound in ("low_", "", "high_")
    )
    right = [p["label"] == t for p, t in zip(world.read("predictions"), truth, strict=True)]
    assert low < value < high
    assert low <= np.mean(right) <= high
    assert value_of(text, "streamboost_budget_ratio") == 0.5
    assert value_of(text, "streamboost_budget_tokens") <= 20
    assert math.isnan(value_of(text, "streamboost_decision_cost")), "nobody decides"


@pytest.mark.slow
def test_the_cost_of_decisions_is_told_with_its_interval(world, make_records):
    world.loop.pipeline.learner.decisions = Decisions(costs={"left": {"right": 10}})
    text, truth = fed(world, make_records)
    low, value, high = (
        value_of(text, f"streamboost_decision_cost{end}") for end in ("_low", "", "_high")
    )
    decided = [one["decision"] for one in world.read("predictions")]
    pairs = list(zip(decided, truth, strict=True))
    paid = [(10 if true == "left" else 1) * (true != said) for said, true in pairs if said]
    assert low < value < high
    assert low <= np.mean(paid) <= high
