"""A pipeline that ran, and a server for it."""

import shutil

import pytest
from serving import make_file, put, read, site_of, some_records

from streamboost.pipelines.app.run import run
from streamboost.pipelines.config.file import load


@pytest.fixture(scope="session")
def _ran(tmp_path_factory):
    """A pipeline that has learned some labels, and waits for others."""
    file = make_file(tmp_path_factory.mktemp("ran") / "job")
    config = load(file)
    put(config, "records", some_records(60))
    run(config, until_idle=True)
    truth = {r["id"]: "left" if r["a"] > r["b"] else "right" for r in some_records(60)}
    asked = [request["id"] for request in read(config, "requests")]
    put(config, "labels", [{"id": id, "label": truth[id]} for id in asked])
    put(config, "records", some_records(60, start=1_000))
    run(config, until_idle=True)
    return file


@pytest.fixture
def file(_ran, tmp_path):
    """The file of a pipeline of one's own that has learned some labels and waits for others."""
    shutil.copytree(_ran.parent, tmp_path / "job")
    return tmp_path / "job" / "p.toml"


@pytest.fixture(scope="module")
def file_of_module(_ran, tmp_path_factory):
    """The same, for all tests of a module."""
    folder = tmp_path_factory.mktemp("module") / "job"
    shutil.copytree(_ran.parent, folder)
    return folder / "p.toml"


@pytest.fixture
def site(file):
    with site_of(file) as found:
        yield found
