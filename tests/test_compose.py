"""compose.yaml: what it starts is there, and finds its broker."""

import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from streamboost.pipelines.cli.__main__ import COMMANDS

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def composed():
    """The file, as Compose reads it."""
    return yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))


def copies(service):
    """Return what the image of a service is copied from, and to where."""
    lines = re.findall(r"^COPY (.+) (\S+)$", service["build"]["dockerfile_inline"], re.MULTILINE)
    return [(source, target) for sources, target in lines for source in sources.split()]


def test_a_broker_alone_starts_by_itself_and_a_learner_and_scorers_on_demand(composed):
    profiles = {name: one.get("profiles", []) for name, one in composed["services"].items()}
    assert profiles == {"kafka": [], "learner": ["apart"], "scorer": ["apart"]}
    assert composed["services"]["learner"]["image"] == composed["services"]["scorer"]["image"]


def test_everybody_finds_the_broker(composed):
    kafka = composed["services"]["kafka"]
    advertised = kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert "PLAINTEXT://localhost:9092" in advertised
    assert kafka["ports"] == ["127.0.0.1:9092:9092"]
    for name in ("learner", "scorer"):
        servers = composed["services"][name]["environment"]["KAFKA_SERVERS"]
        assert f"://{servers}" in advertised
    assert "KAFKA_SERVERS" in (ROOT / "examples/kafka/apart.toml").read_text(encoding="utf-8")


def test_what_is_started_is_in_the_image(composed):
    for name, subcommands in {"learner": ["check", "learn"], "scorer": ["score"]}.items():
        service = composed["services"][name]
        line = shlex.split(service["command"])
        words = shlex.split(line[2]) if line[:2] == ["sh", "-c"] else line
        given = [words[i + 1] for i, word in enumerate(words) if word == "streamboost"]
        assert given == subcommands
        assert {*given} <= {command.__name__ for command in COMMANDS}
        targets = {f"{target}{Path(source).name}" for source, target in copies(service)}
        assert {word for word in words if word.endswith(".toml")} <= targets
    volumes = composed["services"]["learner"]["volumes"]
    assert [one.partition(":")[0] for one in volumes] == ["learner"]
    assert {*composed["volumes"]} == {"learner", "kafka"}


@pytest.mark.slow
def test_the_image_has_all_that_the_package_is_made_of(composed, tmp_path):
    packed = []
    for wanted in (copies(composed["services"]["scorer"]), [(".", "/streamboost")]):
        tree = tmp_path / str(len(packed))
        for source, target in wanted:
            place = tree / target.lstrip("/")
            if (ROOT / source).is_file():
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, place)
                continue
            skipped = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
            shutil.copytree(ROOT / source, place, symlinks=True, ignore=skipped)
        command = [sys.executable, "-m", "build", "--wheel", "--outdir", tree]
        subprocess.run([*command, tree / "streamboost"], check=True, capture_output=True)
        with zipfile.ZipFile(next(tree.glob("*.whl"))) as archive:
            packed.append({n for n in archive.namelist() if ".dist-info/" not in n})
    assert packed[0] == packed[1]
