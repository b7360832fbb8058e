"""Content of the wheel and the sdist: one top-level package with all modules."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from the sdist of a copy of what git would hand out, as it is released."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "tree"
    skipped = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=skipped)
    built = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder, copy],
        check=True,
        capture_output=True,
        text=True,
    )
    (folder / "said").write_text(built.stdout + built.stderr)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_the_wheel_holds_exactly_the_tree(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {n for n in archive.namelist() if ".dist-info/" not in n}
    tree = {"streamboost/py.typed"}
    for folder in ("streamboost", "connectors", "pipelines"):
        code, shown = (ROOT / folder).rglob("*.py"), (ROOT / folder).rglob("static/*")
        for path in (*code, *shown):
            if any(parent.is_symlink() for parent in path.parents):
                continue
            name = path.relative_to(ROOT).as_posix()
            tree.add(name if folder == "streamboost" else f"streamboost/{name}")
    assert packed == tree


@pytest.mark.slow
def test_the_sdist_holds_no_tests(wheel):
    with tarfile.open(next(wheel.parent.glob("*.tar.gz"))) as archive:
        assert not [name for name in archive.getnames() if "/tests" in name]


@pytest.mark.slow
def test_the_wheel_holds_the_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("licenses/LICENSE")]
        assert archive.read(name) == (ROOT / "LICENSE").read_bytes()


@pytest.mark.slow
def test_every_package_is_declared(wheel):
    said = (wheel.parent / "said").read_text()
    assert "is absent from the `packages` configuration" not in said
    assert "Warning" not in said


@pytest.mark.slow
def test_the_wheel_offers_the_command(wheel):
    with zipfile.ZipFile(wheel) as archive:
        entry = next(n for n in archive.namelist() if n.endswith("entry_points.txt"))
        assert (
            "streamboost = streamboost.pipelines.cli.__main__:main" in archive.read(entry).decode()
        )


@pytest.mark.parametrize("name", ["connectors", "pipelines"])
def test_bare_names_are_refused(name):
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert f"write `import streamboost.{name}`" in done.stderr


def test_the_links_in_the_package_lead_to_the_folders():
    for name in ("connectors", "pipelines"):
        link = ROOT / "streamboost" / name
        assert link.is_symlink()
        assert link.readlink() == Path("..") / name
