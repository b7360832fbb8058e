"""Helpers of the browser tests: a running pipeline, and readers of its pages.

Set STREAMBOOST_SCREENSHOTS to a folder to save screenshots of the pages.
"""

import json
import os
import re
import shutil
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pytest
from river import datasets
from serving import put, read

from streamboost.connectors.river import RiverSource
from streamboost.pipelines.config.file import load
from streamboost.pipelines.status.reader import StatusReader
from streamboost.pipelines.status.record_filter import RecordFilter

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

in_a_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: install the system's package of it"),
]

SCRIPT = "<script>alert(1)</script><b>bold</b>"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
PIPELINE = """
[pipeline]
name = "segments"
batch_records = 50
checkpoint_every = 3
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
QUALITY, LABELLING, DRIFT, OPERATIONS = (
    f"/{part}?pipeline=segments" for part in ("quality", "labelling", "drift", "operations")
)
RUNNING = re.compile(
    "OK|Regression|Accuracy drop|Stream change|Feature drift|Annotator disagreement"
)
"""Status of a pipeline that runs; what other tests did may give it cause for attention."""


def segments(start, n):
    """Records of River's ImageSegments, with a text, an image and an address besides."""
    with_ids = islice(RiverSource("ImageSegments").poll(start + n), start, None)
    records = [json.loads(message.payload) for message in with_ids]
    further = {"photo": PIXEL, "page": "https://example.org/a.png", "turned": "ab\u202ecd"}
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

    def given(self):
        return read(self.config, "labels")

    def open_ids(self):
        return [request["id"] for request in self.status.requests()]

    def figure(self, document, name):
        return self.status.document(document)[name]


def arrived(page, url):
    """Wait until a page has the address `url` and is drawn, which scripts do after it is loaded."""
    page.wait_for_url(url)
    page.locator("main h1").wait_for()


def text_of(page, selector):
    return page.locator(selector).first.inner_text()


def tile(page, name):
    return text_of(page, f".tile:has(dt:text-is('{name}')) .value")


SHOWN_RECORD = """script => {
  const title = document.querySelector("#record-title")?.textContent ?? "";
  if (!title.startsWith("Record ")) return false;
  const id = title.slice("Record ".length);
  const fields = [...document.querySelectorAll(".fields dd")];
  return fields.some((one) => one.innerText === `${script} ${id}`) && id;
}"""


def record(page):
    """Return the id of the record that a page shows, when its fields are drawn, too."""
    return page.wait_for_function(SHOWN_RECORD, arg=SCRIPT).json_value()


def wait_for_record_after(page, id):
    page.wait_for_function(
        "id => { const now = document.querySelector('#record-title')?.textContent;"
        " return now?.startsWith('Record') && now !== `Record ${id}` }",
        arg=id,
    )
    return record(page)


def assert_accessible(page):
    """Have axe look at a page, before nothing but measurements of it.

    If that takes longer than `RECONNECT_TIMEOUT`, the page is loaded again at any time after it, in
    place of what a click leads to.
    """
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="this needs axe")
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


LAYOUT_FAULTS = """wide => {
  const found = [], width = document.documentElement.clientWidth;
  const add = (fault, one) => found.push(`${fault}: ${one.textContent.slice(0, 60)}`);
  // An element of one pixel is for screen readers.
  const isShown = one => one.checkVisibility() && one.offsetWidth > 1 && !one.closest(".skip");
  const isBroken = text => {
    const range = document.createRange();
    range.selectNodeContents(text);
    return /^[-+]?[0-9.,]+$/.test(text.data) && range.getClientRects().length > 1;
  };
  if (document.documentElement.scrollWidth > width) found.push("the page scrolls sideways");
  for (const one of document.querySelectorAll("main *, .content *, .top *")) {
    const style = getComputedStyle(one);
    if (!isShown(one)) continue;
    const texts = [...one.childNodes].filter(node => node.nodeType === 3 && node.data.trim());
    const isCut = style.overflowX === "hidden" && one.scrollWidth > one.clientWidth + 1;
    if (texts.length && isCut && style.textOverflow !== "ellipsis") add("cut text", one);
    if (texts.some(isBroken)) add("broken number", one);
    if (one.matches(".scroll") && width >= wide && one.scrollWidth > one.clientWidth + 1)
      add("cut table", one);
  }
  // WCAG 2.2, target size: 24 px; links within a text are exempt.
  for (const one of document.querySelectorAll("button, select, summary, nav a"))
    if (width < 400 && isShown(one) && Math.min(one.offsetWidth, one.offsetHeight) < 24)
      add("small target", one);
  const rows = Map.groupBy(
    [...document.querySelectorAll(".panels > .panel")].filter(isShown), one => one.offsetTop);
  for (const row of rows.values()) {
    const box = row[0].parentElement.getBoundingClientRect();
    const right = Math.max(...row.map(one => one.getBoundingClientRect().right));
    if (box.width && right < box.right - 2) add("half-empty row", row.at(-1));
  }
  for (const one of document.querySelectorAll("details.info")) {
    one.open = true;
    const { left, right } = one.querySelector("p").getBoundingClientRect();
    if (left < 0 || right > width) add("explanation beyond the edge", one);
    one.open = false;
  }
  return found;
}"""


def assert_fits(page, name):
    """Look at a page from wide to a phone; nobody waits for pictures that nobody asked for."""
    for width in (1920, 1440, 1280, 768, 390):
        page.set_viewport_size({"width": width, "height": 844})
        # Not `evaluate`, which fails where a page that was too busy for its server is loaded again.
        found = page.wait_for_function(LAYOUT_FAULTS, arg=1440).json_value()
        assert not found, f"{name} at {width} px: {found}"
        if folder := os.environ.get("STREAMBOOST_SCREENSHOTS"):
            page.screenshot(path=Path(folder) / f"{name}-{width}.png", full_page=True)


def until_said(page, text):
    """Wait for a message, which comes after the next record and the answers."""
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect(page.locator(".said").first).to_contain_text(text, timeout=60_000)


def by_mouse(link):
    link.click()


def by_keys(link):
    link.focus()
    link.page.keyboard.press("Enter")


def explained(job):
    return [one for one in job.status.labelled_records(RecordFilter(), limit=500) if one.get("why")]
