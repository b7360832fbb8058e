"""One browser, one pipeline and one `serve` for all tests of this folder.

The fixtures end with the last test, because a browser's driver occupies the event loop of its
thread, which other tests need.
"""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from serving import put
from waiting import until

import streamboost
from tests.pipelines.command import have_kernels
from tests.pipelines.dashboard.in_browser.browsing import (
    CHROMIUM,
    PIPELINE,
    SCRIPT,
    Job,
    explained,
)

ROOT = Path(streamboost.__file__).parents[1]
FIRST = 400
ENOUGH = 12
VIEWPORT = {"width": 1280, "height": 720}
FAILED = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@contextmanager
def process(folder, *words):
    command = [sys.executable, "-m", "streamboost.pipelines.cli", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / f"{words[0]}.log").open("w") as log:
        started = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        yield started
    finally:
        started.terminate()
        started.communicate(timeout=30)


@pytest.fixture(scope="package")
def job(tmp_path_factory):
    """A pipeline that has learned from its first records, and waits for answers about others."""
    have_kernels()
    folder = tmp_path_factory.mktemp("browser")
    (folder / "p.toml").write_text(PIPELINE)
    job = Job(folder / "p.toml")
    job.feed(FIRST)
    put(job.config, "records", [{"text": SCRIPT}])  # without an id: a dead letter
    (folder / "later").mkdir()
    (folder / "later" / "p.toml").write_text(PIPELINE.replace("segments", "later"))
    people = ["--annotator", "ann"] * 100 + ["--operator", "bob"] * 50
    with (
        process(folder, "run", "p.toml") as running,
        process(folder, "serve", "p.toml", "later/p.toml", "--port", "0", *people) as serving,
    ):
        until(lambda: len(job.open_ids()) >= 0.09 * FIRST)
        job.answer(job.open_ids())
        until(lambda: job.figure("learner", "version") > 0)
        job.feed(FIRST)
        until(lambda: len(job.open_ids()) >= 0.09 * FIRST)
        job.answer(job.open_ids()[:10])
        for _ in people[1::2]:
            said, link = serving.stdout.readline().strip().split(": ", 1)
            job.links.setdefault(said.partition(" (")[0], []).append(link)
        job.running, job.serving = running, serving
        yield job
        running.terminate()
        serving.terminate()


@pytest.fixture(scope="package")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="a browser is driven by it")
    with playwright.sync_playwright() as driver:
        # Chromium's sandbox refuses to work for the superuser, and shared memory may be scarce.
        args = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=args)
        yield browser
        browser.close()


def log_in(context, link):
    """Follow a login link and say yes, as fast as that goes."""
    own = {"Origin": link.partition("/login")[0]}
    assert context.request.post(link, headers=own, max_redirects=0).status == 303


def have_requests(job):
    """Have enough records open for a test to answer some, whatever others have left."""
    if len(job.open_ids()) < ENOUGH:
        job.feed(200)
        until(lambda: len(job.open_ids()) >= ENOUGH)


class Windows:
    """Browser windows, which tests use one after another, each with logins of its own.

    Chromium takes longer to open a window than to load a page.
    """

    def __init__(self, chromium):
        self._chromium, self._free, self._used, self._troubles = chromium, {}, [], []

    def open(self, link, bypass_csp):
        """Return the page of a window, logged in by `link`."""
        free = self._free.setdefault(bypass_csp, [])
        page = free.pop() if free else self._new(bypass_csp)
        self._used.append((bypass_csp, page))
        log_in(page.context, link)
        return page

    def put_back(self, are_kept):
        """Empty all windows, or close them unless `are_kept`; return what went wrong in them."""
        for bypass_csp, page in self._used:
            if are_kept and not page.is_closed():
                self._empty(page)
                self._free[bypass_csp].append(page)
            else:
                page.context.close()
        troubles = self._troubles[:]
        self._used.clear()
        self._troubles.clear()
        return troubles

    def _new(self, bypass_csp):
        context = self._chromium.new_context(reduced_motion="reduce", bypass_csp=bypass_csp)
        context.set_default_timeout(60_000)
        page = context.new_page()
        self._record_troubles(page)
        return page

    def _record_troubles(self, page):
        def noticed(request):
            if urlsplit(request.url).hostname not in ("127.0.0.1", None):
                self._troubles.append(f"asked {request.url}")

        def logged(said):
            if said.type in ("error", "warning"):
                self._troubles.append(said.text)

        page.on("console", logged)
        page.on("pageerror", lambda error: self._troubles.append(str(error)))
        page.on("dialog", lambda dialog: self._troubles.append(dialog.message))
        page.on("request", noticed)

    def _empty(self, page):
        for other in page.context.pages:
            if other is not page:
                other.close()
        page.unroute_all()
        page.evaluate("localStorage.clear(); sessionStorage.clear()")
        page.goto("about:blank")
        page.context.clear_cookies()


@pytest.fixture(scope="package")
def windows(chromium):
    return Windows(chromium)


@pytest.fixture
def visit(request, job, windows):
    """Log somebody in and open a page; in the end nothing may have gone wrong in any of them."""

    def open_page(path, person="ann", viewport=VIEWPORT, color_scheme="light", bypass_csp=False):
        if path.startswith("/label"):
            have_requests(job)
        link = job.links[person].pop()
        page = windows.open(link, bypass_csp)
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=color_scheme)
        page.goto(link.partition("/login")[0] + path)
        page.wait_for_selector("main h1")
        return page

    yield open_page
    assert windows.put_back(are_kept=not request.node.stash.get(FAILED, False)) == []


@pytest.fixture
def answered(job):
    """A pipeline of whose labelled records some are explained."""

    def is_there():
        if explained(job):
            return True
        ready = [id for id in job.open_ids() if (job.status.labelled_record(id) or {}).get("why")]
        if ready:
            job.answer(ready[:5])
        else:
            job.feed(10)
        return False

    until(is_there)
    return job
