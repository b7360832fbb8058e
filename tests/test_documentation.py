"""Examples in the README and the documentation work: programs, pipeline files, commands."""

import io
import json
import re
import runpy
import shlex
import tomllib
import warnings
from contextlib import chdir, redirect_stdout
from pathlib import Path
from types import FunctionType

import pytest
import river.base
import typer.main

from streamboost.pipelines.cli.__main__ import app
from streamboost.pipelines.config.file import parse
from streamboost.pipelines.config.sections import Sections
from streamboost.pipelines.config.templates import brief
from tests.pipelines.command import Command
from tests.slow import slow

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs" / "pages").rglob("*.md")),
]
MAKEFILE = (ROOT / "Makefile").read_text()
COMMANDS = typer.main.get_command(app).commands


def blocks(language, pages=PAGES):
    """Return every block in a language, with the page's name."""
    is_one = re.compile(rf"^```{language}\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
    return [
        pytest.param(block, id=f"{page.relative_to(ROOT)}-{n}")
        for page in pages
        for n, block in enumerate(is_one.findall(page.read_text()))
    ]


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


def test_the_models_and_transformers_it_shows_can_be_made(tmp_path):
    for program in blocks("python", [ROOT / "docs" / "pages" / "how-to" / "river-models.md"]):
        (tmp_path / "models.py").write_text(program.values[0])
        names = runpy.run_path(str(tmp_path / "models.py"))
        made = [make() for make in names.values() if isinstance(make, FunctionType)]
        assert all(isinstance(one, river.base.Estimator) for one in made)
        assert made


@pytest.mark.parametrize("file", blocks("toml"))
def test_pipeline_files_and_their_parts_are_valid(file, tmp_path):
    """A part is one of the smallest pipeline file, or of one over Kafka."""
    tables = tomllib.loads(file)
    for name in ("records.jsonl", "labels.jsonl"):
        (tmp_path / name).touch()
    whole = {
        "pipeline": {"name": "segments"},
        "source": {"connector": "files", "path": "records.jsonl"},
    }
    if "kafka" in tables or tables.get("pipeline", {}).get("scoring") == "distributed":
        whole["source"] = {"connector": "kafka"}
        whole["kafka"] = {"bootstrap_servers": "localhost:9092"}
    for section, keys in tables.items():
        whole[section] = whole.get(section, {}) | keys
    names = re.findall(r"\$\{(\w+)\}", file)
    values = {name: "http://localhost" if name.endswith("URL") else "secret" for name in names}
    parse(whole, tmp_path, environment=values)


def test_the_readme_s_pipeline_file_reads_the_readme_s_record(tmp_path):
    pages = [ROOT / "README.md"]
    (file,) = [one.values[0] for one in blocks("toml", pages)]
    (record,) = [json.loads(one.values[0]) for one in blocks("json", pages)]
    (tmp_path / "pipeline.toml").write_text(file)
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


def without_digits(text):
    """Replace each number by 0 and each run of spaces by one: another processor gives others."""
    return re.sub(r" +", " ", re.sub(r"\d[\d.,]*", "0", text))


@pytest.mark.slow
def test_the_first_service_is_up_in_the_steps_its_page_shows(tmp_path):
    pages = [ROOT / "docs" / "pages" / "start" / "service.md"]
    (tmp_path / "make.py").write_text(blocks("python", pages)[0].values[0])
    run(tmp_path / "make.py", tmp_path)
    (tmp_path / "pipeline.toml").write_text(blocks("toml", pages)[0].values[0])
    command = Command(tmp_path)
    out, _ = command("check", "pipeline.toml")
    assert out.startswith("OK")
    command("run", "--until-idle", "pipeline.toml")
    out, _ = command("inspect", "pipeline.toml")
    shown = re.search(r"^```\n(pipeline .*?)^```", pages[0].read_text(), flags=re.DOTALL | re.M)
    in_form, there = (set(without_digits(text).splitlines()) for text in (shown[1], out))
    assert in_form <= {*there, "..."}
    out, _ = command("inspect", "--json", "pipeline.toml")
    found = json.loads(out)
    done = found["checkpoint"]
    assert done["evaluation"]["recent"]["committee"]["accuracy"]["value"] > 0.9, done
    assert 200 < done["ledger"]["requests"] <= 300


def test_several_machines_take_other_topics_and_another_state_than_one_process_before():
    page = ROOT / "docs" / "pages" / "how-to" / "distributed-scoring.md"
    apart = tomllib.loads(blocks("toml", [page])[0].values[0])["pipeline"]
    here = tomllib.loads(brief.render_template(kafka=True))["pipeline"]
    assert apart["name"] != here["name"]
    assert apart["state"] != here.get("state", "state")
    records = re.search(r"segments.py localhost:9092 \d+ (\S+) ", page.read_text())
    assert records[1] == apart["name"]


def said_commands(page):
    """Give the command lines that a page shows, in blocks and in the text."""
    text = page.read_text()
    for block in re.findall(r"^```(?:sh)?\n(.*?)^```", text, flags=re.DOTALL | re.M):
        yield from re.findall(r"^\s*(?:\S*bin/)?streamboost (.*?)\s*(?:#.*|&)?$", block, flags=re.M)
    yield from re.findall(r"`streamboost ([a-z][^`]*)`", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_it_names_exist(page):
    for line in said_commands(page):
        name, *words = shlex.split(line)
        assert name in COMMANDS, line
        known = {way for one in COMMANDS[name].params for way in (*one.opts, *one.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= known | {"--help"}, line
    for target in re.findall(r"`make ([a-z-]+)", page.read_text()):
        assert re.search(rf"^{target}:", MAKEFILE, flags=re.MULTILINE), target


def test_the_benchmarks_it_names_exist():
    for page in PAGES:
        for name in re.findall(r"python -m benchmarks\.(\w+)", page.read_text()):
            folder = ROOT / "benchmarks"
            assert (folder / f"{name}.py").exists() or (folder / name).is_dir(), (page, name)


LONG = ["drifting_stream", "monitored_model"]
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


@pytest.mark.slow
def test_looking_for_drift_is_worth_what_its_page_says(tmp_path):
    said = run(ROOT / "examples" / "drifting_stream.py", tmp_path)
    page = without_digits((ROOT / "docs" / "pages" / "how-to" / "drift.md").read_text())
    (noticed,) = re.findall(r"drift noticed (\d+) records", said)
    assert int(noticed) < 100
    assert "The detector signals the change 0 records after it" in page
    figures = re.findall(r"accuracy (?:on|from) .*?([\d.]+)%$", said, flags=re.MULTILINE)
    after, later, after_noticed, later_noticed = map(float, figures)
    assert after_noticed > after + 5
    assert later_noticed > later + 2
    assert (
        "| on the 0 records after the change | 0 % | 0 % |\n| on later records | 0 % | 0 % |"
        in page
    )


def test_the_pages_made_from_the_code_name_every_section_and_command():
    pytest.importorskip("griffe", reason="the pages made from the code want griffelib")
    made = dict(runpy.run_path(str(ROOT / "docs" / "reference.py"))["pages"]())
    for name, text in made.items():
        committed = (ROOT / "docs" / "pages" / name).read_text(encoding="utf-8")
        assert committed == text, f"{name} differs from the code: run `make reference`"
    headings = re.findall(r"^#+ \[([\w.]+)\]", made["reference/file.md"], flags=re.MULTILINE)
    sections = {field.alias or name for name, field in Sections.model_fields.items()}
    assert {heading.split(".")[0] for heading in headings} == sections
    assert "shadow_models.NAME" in headings
    for name in COMMANDS:
        assert f"`streamboost {name}`" in made["reference/commands.md"], name


def test_relative_links_of_pages_lead_to_files_of_a_clone():
    made = {
        "changes.md",
        "contributing.md",
        "security.md",
        "papers.md",
    }  # copies, see docs/build.py
    for page in [ROOT / "README.md", *(ROOT / "docs" / "pages").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            target = page.parent / link
            assert target.exists() or target.name in made, f"{page.name} links to {link}"


SHARED = {
    "index.md": (r"^ImageSegments, every record.*?^```", r"margin queries reach .*? labels"),
    "figures/benchmarks.md": (r"^\| stream, records \| 1 %.*?\n\n", r"[\d.]+ to [\d.]+ times"),
    "figures/comparison.md": (r"[\d.]+ to [\d.]+ times",),
}
"""Figures that the README shows, and what page shows the same."""


@pytest.mark.parametrize("page", SHARED)
def test_readme_and_site_show_the_same_figures(page):
    readme = (ROOT / "README.md").read_text()
    there = " ".join((ROOT / "docs" / "pages" / page).read_text().split())
    for figures in SHARED[page]:
        (shown,) = re.findall(figures, readme, flags=re.DOTALL | re.MULTILINE)
        assert " ".join(shown.split()) in there


def test_no_figure_is_left_to_fill_in():
    for page in PAGES:
        assert not re.findall(r"@[A-Z]+@", page.read_text()), page
