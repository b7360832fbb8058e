"""`streamboost export` writes a file, and prints which committee is in it."""

import sys

import pytest
from serving import make_file, put, some_records

from streamboost import Committee
from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load
from tests.pipelines.command import Command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the file of a pipeline that has learned 80 labels."""
    folder = tmp_path_factory.mktemp("export")
    config, records = load(make_file(folder)), some_records(80)
    put(config, "records", records)
    put(config, "labels", [{"id": r["id"], "label": r["a"] > r["b"]} for r in records])
    run(config, until_idle=True)
    return folder


def test_file_is_named_by_pipeline_and_version(folder):
    out, _ = Command(folder)("export", "p.toml", "--format", "safetensors")
    (path,) = folder.glob("test-*.safetensors")
    version = Committee.load(path).version
    assert path.name == f"test-{version}.safetensors"
    lines = out.splitlines()
    assert lines[0] == f"{path.name}: {path.stat().st_size:,} bytes"
    assert lines[1] == f"version {version} of the committee is exported, not the ensemble"
    assert "accuracy" in lines[2]


def test_version_and_output_are_options(folder):
    kept = min(int(path.stem) for path in (folder / "state" / "versions").iterdir())
    words = ("--format", "lightgbm", "--version", str(kept), "--output", "model.txt")
    out, _ = Command(folder)("export", "p.toml", *words)
    assert f"version {kept} " in out
    assert (folder / "model.txt").read_text().startswith("tree\n")


def test_output_that_cannot_be_written_ends_with_code_1(folder):
    words = ("--format", "lightgbm", "--output", "no/such/folder")
    _, err = Command(folder)("export", "p.toml", *words, code=1)
    assert "no/such/folder: cannot be written" in err


def test_missing_package_is_named_with_the_remedy(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)  # as if it were not installed
    _, err = Command(folder)("export", "p.toml", "--format", "onnx", code=2)
    assert "onnx is not installed" in err
    assert "install streamboost[export]" in err
    assert not list(folder.glob("*.onnx"))
