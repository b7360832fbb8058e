"""A real schema registry for tests: Apicurio Registry, which implements Confluent's API as well.

Maven downloads the registry once into its local repository. Schemas are held in memory.
"""

import os
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

from tests.ports import free_ports

HERE = Path(__file__).parent
VERSION = "3.0.9"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack-dependencies"
PATIENCE = 90.0
"""Seconds until one that has not answered is given up."""


def missing():
    """Return what is to be done before a registry can be started here, or None."""
    lacking = [
        n for n, program in (("Java", "java"), ("Maven", "mvn")) if not shutil.which(program)
    ]
    if lacking:
        return f"{' and '.join(lacking)} not found: install Java 17 or newer and Maven"
    return None if _jar().exists() else _bring()


def _jar():
    return HERE / "target" / f"registry-{VERSION}" / f"apicurio-registry-app-{VERSION}-runner.jar"


def _bring():
    """Have Maven unpack it; return what kept it from doing so, or None."""
    folder = _jar().parent
    command = ["mvn", "-q", "-B", "-f", str(HERE / "registry.xml"), PLUGIN]
    command += [f"-DoutputDirectory={folder}", "-DoverWriteReleases=true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not _jar().exists():
        shutil.rmtree(folder, ignore_errors=True)
        return f"Maven could not bring Apicurio Registry {VERSION}: {done.stdout[-500:]}"
    return None


class SchemaRegistry:
    """A registry that logs into `folder`; started again, it knows nothing of what it had."""

    def __init__(self, folder):
        self._log = folder / "registry.log"
        self._process = None
        (self.port,) = free_ports(1)

    @property
    def url(self):
        """Where Confluent's API begins."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def start(self):
        """Start the process and return once it answers."""
        command = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dquarkus.http.port={self.port}", "-Dquarkus.http.host=127.0.0.1"]
        command += ["-jar", _jar().name]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=_jar().parent)
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self._log.read_text(errors="replace")[-4000:]
                self.kill()
                raise RuntimeError(f"the registry did not come up; it said:\n{said}")
            time.sleep(0.1)

    def freeze(self):
        """Let it answer nobody, its connections staying open, until `thaw`."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self):
        """Let it answer again."""
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self):
        """End it as a power failure would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self):
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=2):
                return True
        except OSError:
            return False
