"""compose.yaml: services start on demand, find their broker, and share no topics or state."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import typer.main
import yaml

from streamboost.pipelines.cli.__main__ import app
from streamboost.pipelines.config.file import parse

ROOT = Path(__file__).parents[1]
SERVERS = {"KAFKA_SERVERS": "localhost:9092"}
COMMANDS = typer.main.get_command(app).commands


@pytest.fixture(scope="module")
def composed():
    """The file, as Compose reads it."""
    return yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def test_a_broker_alone_starts_by_itself_and_the_others_on_demand(composed):
    profiles = {name: one.get("profiles") for name, one in composed["services"].items()}
    assert profiles.pop("kafka") is None
    assert {tuple(one) for one in profiles.values()} == {("watched",), ("distributed",)}


def test_everybody_finds_the_broker(composed):
    kafka = composed["services"]["kafka"]
    advertised = kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert "PLAINTEXT://localhost:9092" in advertised
    assert kafka["ports"] == ["127.0.0.1:9092:9092"]
    for name, service in composed["services"].items():
        if service["image"] == "streamboost":
            assert f"://{service['environment']['KAFKA_SERVERS']}" in advertised, name


def test_it_names_what_there_is(composed):
    for name, service in composed["services"].items():
        for volume in service.get("volumes", []):
            here, _ = volume.split(":", 1)
            assert not here.startswith(".") or (ROOT / here).exists(), (name, here)
        if service["image"] != "streamboost":
            assert re.search(r":v?\d", service["image"]), f"{name}: which release?"
            continue
        (line,) = service["command"]
        for command, words in re.findall(r"streamboost (\S+)((?: [^;&]+)?)", line):
            known = {way for one in COMMANDS[command].params for way in one.opts}
            assert {word for word in words.split() if word.startswith("--")} <= known, name
        for file in re.findall(r"/(examples/\S+\.toml)", line):
            tables = tomllib.loads((ROOT / file).read_text())
            parse(tables, ROOT, environment=SERVERS)


def test_its_pipelines_share_neither_topics_nor_a_state(composed):
    used = []
    for name in ("pipeline", "learner"):
        (line,) = composed["services"][name]["command"]
        (file,) = set(re.findall(r"/(examples/\S+\.toml)", line))
        config = parse(tomllib.loads((ROOT / file).read_text()), ROOT, environment=SERVERS)
        used.append(config.sections.pipeline)
    here, apart = used
    assert here.name != apart.name
    assert here.state != apart.state


def test_prometheus_owns_where_it_keeps_its_figures(composed):
    prometheus = composed["services"]["prometheus"]
    assert prometheus["tmpfs"] == [f"/prometheus:uid={prometheus['user']}"]


def test_grafana_s_dashboard_reads_what_compose_gives_it():
    sources = yaml.safe_load((ROOT / "examples/containers/datasources.yml").read_text())
    (source,) = sources["datasources"]
    board = json.loads((ROOT / "examples/monitoring/dashboard.json").read_text())
    (asked,) = [one for one in board["templating"]["list"] if one["type"] == "datasource"]
    assert asked["query"] == source["type"] == "prometheus"
