"""The image's steps work in a fresh Debian, and the result runs as a user without privileges."""

import json
import os
import re
import shlex
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest
from waiting import until

from tests.ports import free_ports

ROOT = Path(__file__).parents[1]
STEPS = re.sub(r"\\\n", "", re.sub(r"^#.*\n", "", (ROOT / "Containerfile").read_text(), flags=re.M))
USER = 10001


def steps(word):
    """Return the arguments of each occurrence of an instruction."""
    return re.findall(rf"^{word} +(.*)$", STEPS, flags=re.MULTILINE)


ENV = dict(pair.split("=", 1) for pair in shlex.split(steps("ENV")[0]))


def test_it_ends_as_a_user_without_rights_with_nothing_of_the_tree():
    assert steps("USER") == ["streamboost"]
    assert f"--uid {USER}" in STEPS
    (copied,) = steps("COPY --from=built")
    assert copied == "/opt/streamboost /opt/streamboost"
    assert STEPS.rindex("COPY . ") < STEPS.rindex("FROM ")


def test_what_is_ignored_is_neither_needed_nor_a_secret():
    ignored = (ROOT / ".dockerignore").read_text().split()
    for name in ("pyproject.toml", "README.md", "LICENSE", "constraints.txt", "streamboost"):
        assert not any(fnmatch(name, pattern) for pattern in ignored), name
    for name in (".git", ".venv", "build"):
        assert any(fnmatch(name, pattern) for pattern in ignored), name


def test_its_healthcheck_is_built_as_its_page_says():
    assert steps("HEALTHCHECK")
    page = (ROOT / "docs" / "pages" / "how-to" / "containers.md").read_text()
    (builds,) = re.findall(r"^podman build (.*?)\.", page, flags=re.MULTILINE)
    assert "--format docker" in builds, "the OCI format drops it"


class Debian:
    """A fresh Debian in a folder, in which commands run."""

    def __init__(self, path):
        self.path = path
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

    def popen(self, command, *, user=0, **more):
        """Start a command; `user` is who runs it."""
        who = ["--userspec", f"{user}:{user}"] if user else []
        inside = ["/bin/sh", "-c", f"cd {'/data' if user else '/'} && {command}"]
        env = self.env | {"HOME": "/data" if user else "/root"}
        chroot = ["/usr/sbin/chroot", *who, str(self.path), *inside]
        return subprocess.Popen(
            chroot, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
        )

    def __call__(self, command, *, user=0):
        """Run a command to its end; return what it said."""
        with self.popen(command, user=user) as process:
            said, _ = process.communicate(timeout=900)
        assert process.returncode == 0, said
        return said


def as_ignored(folder, names):
    """Return the names that the builder would not be sent."""
    patterns = [line.removeprefix("**/") for line in (ROOT / ".dockerignore").read_text().split()]
    deep = "__pycache__" in names or Path(folder) == ROOT
    return [name for name in names if deep and any(fnmatch(name, one) for one in patterns)]


@pytest.fixture(scope="module")
def debian(tmp_path_factory):
    """A Debian with a Python, as the base image has one, after the image's steps."""
    if os.geteuid() or not shutil.which("debootstrap"):
        pytest.skip("debootstrap, or the right to run it, is not here")
    path = tmp_path_factory.mktemp("debian")
    packages = "python3,python3-venv,ca-certificates"
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={packages}", "trixie", str(path)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    if made.returncode:
        pytest.skip(f"no Debian could be made here: {made.stdout.splitlines()[-1:]}")
    path.chmod(0o755)  # it is the root folder, which a user without rights looks into
    fresh = Debian(path)
    (path / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    for name in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"):
        shutil.copy(name, path / name[1:])
    for name in ("null", "zero", "random", "urandom"):
        assert (path / "dev" / name).exists()
    fresh.env |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    shutil.copytree(ROOT, path / "source", symlinks=True, ignore=as_ignored)
    first, second = steps("RUN")
    fresh(first)
    shutil.rmtree(path / "source")
    fresh.env |= ENV | {"PATH": ENV["PATH"].replace("$PATH", fresh.env["PATH"])}
    fresh(second)
    yield fresh
    shutil.rmtree(path, ignore_errors=True)


def kernels(debian):
    """Return the compiled kernels, with when each was written."""
    folder = debian.path / ENV["NUMBA_CACHE_DIR"][1:]
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}


@pytest.mark.slow
def test_a_pipeline_runs_to_its_end_with_the_kernels_of_the_image(debian):
    before = kernels(debian)
    assert before
    debian("streamboost init", user=USER)
    debian("streamboost check", user=USER)
    said = debian("streamboost run --until-idle", user=USER)
    assert "2,310 records in this run" in said, said
    assert kernels(debian) == before


@pytest.mark.slow
def test_its_health_is_that_of_the_pipeline(debian):
    (line,) = steps("HEALTHCHECK")
    check = shlex.join(json.loads(line[line.index("[") :]))
    file = debian.path / "data" / "followed.toml"
    (port,) = free_ports(1)
    (debian.path / "data" / "records.jsonl").touch()
    (debian.path / "data" / "labels.jsonl").touch()
    file.write_text(
        '[pipeline]\nname = "followed"\nstate = "followed"\n[schema]\nnumeric = ["x"]\n'
        '[source]\nconnector = "files"\npath = "records.jsonl"\nfollow = true\n'
        '[labels]\nconnector = "files"\npath = "labels.jsonl"\nfollow = true\n'
        f"[monitor]\nport = {port}\n"
    )
    debian.env["STREAMBOOST_HEALTH"] = f"http://127.0.0.1:{port}/readyz"

    def healthy():
        with debian.popen(check, user=USER) as process:
            process.communicate(timeout=60)
        return process.returncode == 0

    assert not healthy()
    with debian.popen("exec streamboost run followed.toml", user=USER) as running:
        until(healthy)
        running.terminate()
        running.communicate(timeout=60)
    assert running.returncode == 0
    assert not healthy()
