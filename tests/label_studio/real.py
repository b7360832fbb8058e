"""A real Label Studio server, which `make test-slow` installs if PyPI is reachable."""

import os
import shutil
import sqlite3
import subprocess
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

from waiting import until

from tests.label_studio.front import EMAILS, LEGACY, OTHERS, Front, interface
from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
COMMAND = Path(
    os.environ.get(
        "STREAMBOOST_LABEL_STUDIO", ROOT / ".cache" / "label-studio" / "bin" / "label-studio"
    )
)
PATIENCE = 600
"""Seconds until a server that has not answered is given up: the first start makes its tables."""

OFFLINE = {
    "COLLECT_ANALYTICS": "0",
    "FRONTEND_SENTRY_DSN": "",
    "LATEST_VERSION_CHECK": "0",
    "SECRET_KEY": "for tests alone",
    "SENTRY_DSN": "",
}


def missing():
    """Return what keeps it from being started here, None if nothing does."""
    return None if COMMAND.exists() else f"{COMMAND} is missing: `make test-slow` installs it"


class Real(Front):
    """A server of our own, on data in `folder`, with a project for each test."""

    def __init__(self, folder):
        self._folder = folder / "data"
        self._first = folder / "first.sqlite3"
        self._folder.mkdir()
        (self._port,) = free_ports(1)
        self._log = (folder / "log").open("ab")
        self._start()
        super().__init__()
        self.personal = self.done("POST", "/api/token/", {})["token"]
        for token, email in zip(OTHERS, EMAILS[1:], strict=True):
            self._add_person(token, email)
        with (
            closing(sqlite3.connect(self._database)) as here,
            closing(sqlite3.connect(self._first)) as there,
        ):
            here.backup(there)

    def _add_person(self, token, email):
        """Add somebody with that token, whom only a page lets choose it."""
        body = {"email": email, "username": token, "password": "streamboost"}
        number = self.done("POST", "/api/users/", body)["id"]
        with closing(sqlite3.connect(self._database, timeout=30)) as database, database:
            database.execute(
                "UPDATE authtoken_token SET key = ? WHERE user_id = ?", (token, number)
            )
            database.execute(
                "UPDATE htx_user SET active_organization_id = 1 WHERE id = ?", (number,)
            )

    @property
    def _database(self):
        return self._folder / "label_studio.sqlite3"

    def _start(self):
        words = {
            "--data-dir": self._folder,
            "--internal-host": "127.0.0.1",
            "--port": self._port,
            "--username": EMAILS[0],
            "--password": "streamboost",
            "--user-token": LEGACY,
        }
        given = [str(word) for pair in words.items() for word in pair]
        self._process = subprocess.Popen(
            [COMMAND, "start", "--no-browser", "--enable-legacy-api-token", *given],
            cwd=self._folder,
            env=os.environ | OFFLINE,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        until(self._is_up, PATIENCE)

    def _is_up(self):
        assert self._process.poll() is None, "Label Studio has ended: see its log"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health", timeout=5):
                return True
        except OSError:
            return False

    def _stop(self):
        self._process.kill()
        self._process.wait()

    def begin_anew(self):
        super().begin_anew()
        self._make_project()

    def _make_project(self):
        body = {"title": "streamboost", "label_config": interface()}
        self.project = self.done("POST", "/api/projects/", body)["id"]

    def lose_data(self, first):
        wanted = self.project
        self._stop()
        shutil.copyfile(self._first, self._database)
        with closing(sqlite3.connect(self._database)) as database, database:
            database.execute("DELETE FROM sqlite_sequence WHERE name = 'project'")
            database.execute("INSERT INTO sqlite_sequence VALUES ('project', ?)", (wanted - 2,))
        self._start()
        self._make_project()
        other = self.add({"data": {"features": {}}})  # numbers continue after the largest
        with closing(sqlite3.connect(self._database, timeout=30)) as database, database:
            database.execute("UPDATE task SET id = ? WHERE id = ?", (first - 1, other))
        self._make_project()
        assert self.project == wanted

    def close(self):
        super().close()
        self._stop()
        self._log.close()

    def answer(self, method, target, headers, body):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{target}", body, method=method
        )
        for name in ("Authorization", "Content-Type", "Accept"):
            if headers.get(name):
                request.add_header(name, headers[name])
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
