"""What the README shows works: its programs run, its pipeline file is valid, its commands exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def run(*command, cwd):
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("program", blocks("python"))
def test_programs_run(program, tmp_path):
    done = run("-W", "error::DeprecationWarning:streamboost", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if "Accuracy" in program:
        assert float(re.search(r"([\d.]+)%", done.stdout)[1]) > 90


def test_the_pipeline_file_runs(tmp_path):
    (file,) = blocks("toml")
    (tmp_path / "pipeline.toml").write_text(file)
    lines = [f'{{"id": "{i}", "width": {i % 7}.5, "hue": null}}' for i in range(60)]
    (tmp_path / "records.jsonl").write_text("\n".join(lines))
    (tmp_path / "labels.jsonl").write_text("")
    command = ("-m", "streamboost.pipelines.cli")
    check = run(*command, "check", "pipeline.toml", cwd=tmp_path)
    assert check.returncode == 0, check.stderr
    assert "exactly once" in check.stdout
    done = run(*command, "run", "pipeline.toml", "--until-idle", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_commands_it_names_exist():
    named = set(re.findall(r"^\s*(?:`)?streamboost ([\w-]+)", README, flags=re.MULTILINE))
    named |= set(re.findall(r"`streamboost ([\w-]+)", README))
    from streamboost.pipelines.cli.__main__ import app

    assert named <= {
        command.name or command.callback.__name__ for command in app.registered_commands
    }
    targets = set(re.findall(r"make (demo|test|bench|check)", README))
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_examples_run(path, tmp_path):
    done = run(path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shares = [float(share) for share in re.findall(r"([\d.]+)%", done.stdout)]
    assert shares, done.stdout
    assert shares[-1] > 85


def test_no_figure_is_left_to_fill_in():
    assert not re.findall(r"@[A-Z]+@", README)
