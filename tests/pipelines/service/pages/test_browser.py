"""The pages in a real browser, over a real pipeline and a real `serve`, each a process of its own.

Set STREAMBOOST_SCREENSHOTS to a folder to keep the pictures that are taken.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from river import datasets
from serving import put
from waiting import until

import streamboost
from streamboost.connectors.river import RiverSource
from streamboost.pipelines.config.file import load
from streamboost.pipelines.status.reader import StatusReader

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="they need axe")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: install the system's package of it"),
]

ROOT = Path(streamboost.__file__).parents[1]
SCRIPT = "<script>alert(1)</script><b>bold</b>"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
PIPELINE = """
[pipeline]
name = "segments"
batch_records = 50
[source]
connector = "sqlite"
stream = "records"
[labels]
connector = "sqlite"
stream = "labels"
[committee]
n_estimators = 20
[schedule]
extend_every = 1
[query]
budget = 0.1
"""
DASHBOARD = "/?pipeline=segments"
FIRST = 400


def segments(start, n):
    """Records of River's ImageSegments, with a text, an image and an address besides."""
    with_ids = islice(RiverSource("ImageSegments").poll(start + n), start, None)
    records = [json.loads(message.payload) for message in with_ids]
    further = {"photo": PIXEL, "page": "https://example.org/a.png"}
    return [record | {"text": f"{SCRIPT} {record['id']}"} | further for record in records]


@dataclass
class Job:
    """A pipeline that runs, and `serve` over it."""

    file: Path
    links: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self):
        self.config = load(self.file)
        self.status = StatusReader(self.config.state)
        self.truth = [label for _, label in datasets.ImageSegments()]
        self.fed = 0

    def feed(self, n):
        put(self.config, "records", segments(self.fed, n))
        self.fed += n

    def answer(self, ids):
        labels = [{"id": id, "label": self.truth[int(id)]} for id in ids]
        put(self.config, "labels", labels)

    def open_ids(self):
        return [request["id"] for request in self.status.requests()]

    def figure(self, document, name):
        return self.status.document(document)[name]


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


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A pipeline that has learned from its first records, and waits for answers about others."""
    folder = tmp_path_factory.mktemp("browser")
    (folder / "p.toml").write_text(PIPELINE)
    job = Job(folder / "p.toml")
    job.feed(FIRST)
    put(job.config, "records", [{"text": SCRIPT}])  # without an id: a dead letter
    (folder / "later").mkdir()
    (folder / "later" / "p.toml").write_text(PIPELINE.replace("segments", "later"))
    people = ["ann"] * 24 + ["bob"]
    asked = [word for name in people for word in ("--person", name)]
    with (
        process(folder, "run", "p.toml") as running,
        process(folder, "serve", "p.toml", "later/p.toml", "--port", "0", *asked) as serving,
    ):
        until(lambda: len(job.open_ids()) >= 0.09 * FIRST)
        job.answer(job.open_ids())
        until(lambda: job.figure("learner", "version") > 0)
        job.feed(FIRST)
        until(lambda: len(job.open_ids()) >= 0.09 * FIRST)
        job.answer(job.open_ids()[:10])
        for _ in people:
            name, link = serving.stdout.readline().strip().split(": ", 1)
            job.links.setdefault(name, []).append(link)
        yield job
        running.terminate()
        serving.terminate()


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as driver:
        # Chromium's sandbox refuses to work for the superuser, and shared memory may be scarce.
        args = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=args)
        yield browser
        browser.close()


@pytest.fixture
def visit(job, chromium):
    """Log somebody in and open a page; in the end nothing may have gone wrong in any of them."""
    contexts, troubles = [], []

    def noticed(request):
        if urlsplit(request.url).hostname not in ("127.0.0.1", None):
            troubles.append(f"asked {request.url}")

    def open_page(path, person="ann", **options):
        context = chromium.new_context(reduced_motion="reduce", **options)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console", lambda said: said.type in ("error", "warning") and troubles.append(said.text)
        )
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.on("request", noticed)
        link = job.links[person].pop()
        assert context.request.get(link).ok
        page.goto(link.partition("/login")[0] + path)
        page.wait_for_selector("main h1")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


def text_of(page, selector):
    return page.locator(selector).first.inner_text()


def tile(page, name):
    return text_of(page, f".tile:has(dt:text-is('{name}')) .value")


def record(page):
    """Return the id of the record that a page shows, when it shows one."""
    title = page.get_by_role("heading", name=re.compile("^Record"))
    title.wait_for()
    return title.inner_text().removeprefix("Record ")


def wait_for_record_after(page, id):
    page.wait_for_function(
        "id => { const now = document.querySelector('#record-title')?.textContent;"
        " return now?.startsWith('Record') && now !== `Record ${id}` }",
        arg=id,
    )
    return record(page)


def test_the_charts_move_while_records_come(job, visit):
    page = visit(DASHBOARD)
    chart = page.locator("#throughput .chart")
    before, records = chart.get_attribute("data-last"), tile(page, "Records")
    job.feed(200)
    page.wait_for_function(
        "before => document.querySelector('#throughput .chart').dataset.last > before", arg=before
    )
    until(lambda: tile(page, "Records") != records)
    assert tile(page, "Records") == f"{job.fed:,}"


def test_every_part_of_the_dashboard_shows_something(visit):
    page = visit(DASHBOARD)
    for chart in ("accuracy", "labels-against-budget", "throughput", "latency", "lag", "committee"):
        assert page.locator(f"#{chart} canvas").count() == 1, chart
        page.locator(f"#{chart} summary").click()
        assert page.locator(f"#{chart} tbody tr").count() > 0, chart
    for table in ("class-mix", "confusion-matrix", "steps-of-a-batch", "committee-history"):
        assert page.locator(f"#{table} tbody tr").count() > 0, table
    assert page.locator(".letters li").count() == 1
    page.locator(".letters summary").click()
    assert SCRIPT.replace('"', '\\"') in text_of(page, ".letters pre")


def test_a_label_given_by_a_key_is_learned_and_changes_the_committee(job, visit):
    dashboard, page = visit(DASHBOARD), visit("/label")
    until(lambda: job.figure("pipeline", "state") == "running")
    version, labels = tile(dashboard, "Version"), job.figure("learner", "labels")
    id = record(page)
    name = job.truth[int(id)]
    key = page.get_by_role("button", name=name).get_attribute("aria-keyshortcuts")
    page.keyboard.press(key)
    assert wait_for_record_after(page, id) != id
    assert f"Record {id} is {name}" in text_of(page, ".said")
    until(lambda: job.figure("learner", "labels") == labels + 1)
    until(lambda: tile(dashboard, "Version") != version)
    until(lambda: text_of(page, ".answered tbody tr").endswith("written"))
    assert text_of(page, ".answered tbody tr").split()[:3] == [id, name, "ann"]


def test_two_browsers_never_have_the_same_record(job, visit):
    ann, bob = visit("/label"), visit("/label", "bob")
    had = {"ann": [record(ann)], "bob": [record(bob)]}
    for _ in range(3):
        for name, page in (("ann", ann), ("bob", bob)):
            page.keyboard.press("1")
            had[name].append(wait_for_record_after(page, had[name][-1]))
            assert record(ann) != record(bob)
    assert not set(had["ann"]) & set(had["bob"])


def test_whoever_opens_the_page_again_keeps_the_record_when_the_first_is_gone(job, visit):
    page = visit("/label")
    had = record(page)
    second = page.context.new_page()
    second.goto(page.url)
    assert record(second) == had
    leases = sqlite3.connect(job.config.state / "labelling.db", isolation_level=None)
    page.close()
    with closing(leases):
        # Longer than it takes until a closed page is noticed, four seconds.
        for _ in range(26):
            second.wait_for_timeout(200)
            assert leases.execute("SELECT 1 FROM leases WHERE id = ?", (had,)).fetchone()


def test_what_was_skipped_or_labelled_can_be_taken_back(visit):
    page = visit("/label")
    for key in ("s", "n", "2"):
        id = record(page)
        page.keyboard.press(key)
        wait_for_record_after(page, id)
        page.keyboard.press("u")
        page.wait_for_function(
            "id => document.querySelector('#record-title').textContent === `Record ${id}`", arg=id
        )
        assert f"Taken back: record {id}" in text_of(page, ".said")


def test_a_record_answered_elsewhere_disappears(job, visit):
    page = visit("/label")
    id = record(page)
    job.answer([id])
    wait_for_record_after(page, id)
    assert f"Record {id} was answered or expired" in text_of(page, ".said")


def test_markup_in_a_record_is_shown_as_text(visit):
    page = visit("/label")
    assert text_of(page, ".fields dd") == f"{SCRIPT} {record(page)}"
    assert page.locator(".fields b").count() == 0


def test_an_image_in_a_record_is_shown_and_one_elsewhere_is_a_link(visit):
    page = visit("/label")
    shown = page.locator(".fields img")
    assert shown.count() == 1
    assert shown.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    link = page.locator(".fields a")
    assert link.get_attribute("href") == "https://example.org/a.png"
    assert link.get_attribute("rel") == "noreferrer noopener"


def test_a_theme_that_was_chosen_stays(visit):
    page = visit("/label", color_scheme="light")
    page.get_by_label("Theme").select_option("dark")
    page.wait_for_selector("body.body--dark")
    page.reload()
    page.wait_for_selector("body.body--dark")


def test_the_keyboard_alone_is_enough(visit):
    page = visit("/label")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    seen = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.textContent.trim()"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or page.evaluate("document.activeElement === document.body")
    assert {"SSkip", "NNot sure", "UUndo"} <= seen


def assert_accessible(page):
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_several_pipelines_are_shown_at_a_glance(job, visit):
    page = visit("/", bypass_csp=True)
    rows = page.locator(".overview li")
    assert [rows.nth(i).get_by_role("heading").inner_text() for i in (0, 1)] == [
        "segments",
        "later",
    ]
    assert f"{job.fed:,}" in rows.nth(0).inner_text()
    assert_accessible(page)
    page.get_by_role("link", name="segments").last.click()
    page.wait_for_selector("#throughput canvas")


@pytest.mark.parametrize("path", ["/?pipeline=later", "/label?pipeline=later"])
def test_a_pipeline_that_has_not_begun_says_how_to_begin(path, visit):
    page = visit(path, bypass_csp=True)
    assert 'start it with "streamboost run"' in page.locator("main").inner_text()
    assert page.locator("canvas").count() == page.locator("tbody tr").count() == 0
    assert_accessible(page)


def test_an_unknown_pipeline_is_a_plain_404(job, chromium):
    context = chromium.new_context()
    link = job.links["ann"].pop()
    context.request.get(link)
    answer = context.request.get(link.partition("/login")[0] + "/?pipeline=none")
    assert (answer.status, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", [DASHBOARD, "/label"])
def test_a_page_is_accessible_fits_a_phone_and_follows_the_theme(path, theme, visit, tmp_path):
    folder = Path(os.environ.get("STREAMBOOST_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    page = visit(path, color_scheme=theme, bypass_csp=True)  # axe brings styles of its own
    page.wait_for_selector("canvas" if path == DASHBOARD else ".choice")
    assert_accessible(page)
    brightness = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert (min(brightness) > 200) if theme == "light" else (max(brightness) < 60)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        name = f"{'dashboard' if path == DASHBOARD else 'labelling'}-{theme}-{width}.png"
        page.screenshot(path=folder / name, full_page=True)
