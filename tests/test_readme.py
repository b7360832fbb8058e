"""What the README shows works: its programs run, its pipeline file is valid, its commands exist."""

import io
import json
import re
import runpy
import warnings
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pytest

from tests.pipelines.command import Command
from tests.slow import slow

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def run(program, folder):
    """Run a program's file in a folder; return what it prints."""
    said = io.StringIO()
    with chdir(folder), redirect_stdout(said), warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.filterwarnings("error", category=DeprecationWarning, module="streamboost")
        runpy.run_path(str(program), run_name="__main__")
    return said.getvalue()


@pytest.mark.parametrize("program", blocks("python"))
def test_programs_run(program, tmp_path):
    (tmp_path / "program.py").write_text(program)
    said = run(tmp_path / "program.py", tmp_path)
    if "Accuracy" in program:
        assert float(re.search(r"([\d.]+)%", said)[1]) > 90


def test_the_pipeline_file_runs(tmp_path):
    (file,) = blocks("toml")
    (tmp_path / "pipeline.toml").write_text(file)
    (record,) = map(json.loads, blocks("json"))
    records = [record | {"payment_id": f"p{n}", "amount": f"{n / 7:.2f}"} for n in range(60)]
    labels = [
        {"payment_id": one["payment_id"], "is_fraud": len(one["amount"]) > 4} for one in records
    ]
    for name, messages in (("records", records), ("labels", labels)):
        text = "".join(json.dumps(message) + "\n" for message in messages)
        (tmp_path / f"{name}.jsonl").write_text(text)
    command = Command(tmp_path)
    out, _ = command("check", "pipeline.toml")
    assert out.startswith("OK")
    assert "exactly once" in out
    _, err = command("run", "pipeline.toml", "--until-idle")
    assert "60 learned, 0 dead letters" in err


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


LONG = ["drifting_stream"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize(
    "path",
    [path if path.stem not in LONG else slow(path)[0] for path in EXAMPLES],
    ids=lambda path: path.stem,
)
def test_examples_run(path, tmp_path):
    said = run(path, tmp_path)
    shares = [float(share) for share in re.findall(r"([\d.]+)%", said)]
    assert shares, said
    assert shares[-1] > 85


def test_no_figure_is_left_to_fill_in():
    assert not re.findall(r"@[A-Z]+@", README)
