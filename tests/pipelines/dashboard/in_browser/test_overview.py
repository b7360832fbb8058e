"""The dashboard in a real browser, and requirements on every page."""

import signal

import pytest
from slow import slow
from waiting import until

from streamboost.pipelines.state.commands import Command, queue_command
from streamboost.pipelines.status.formatting import time_text
from tests.pipelines.dashboard.in_browser.browsing import (
    DASHBOARD,
    DRIFT,
    LABELLING,
    OPERATIONS,
    QUALITY,
    RUNNING,
    arrived,
    assert_accessible,
    assert_fits,
    in_a_browser,
    tile,
)
from tests.pipelines.dashboard.in_browser.conftest import log_in

pytestmark = [*in_a_browser, pytest.mark.slow]


def test_something_is_seen_before_the_scripts_that_draw_a_page_have_come(visit):
    page, held = visit(DASHBOARD), []
    opening, top = page.get_by_text("is loading"), page.locator(".top")
    assert not opening.is_visible()
    page.route("**/nicegui.js", lambda route: held.append(route))
    page.reload(wait_until="commit")
    opening.wait_for()
    assert top.count() == 0
    held[0].continue_()
    top.wait_for()
    assert not opening.is_visible()


def test_the_charts_move_while_records_come(job, visit):
    page, overview = visit(OPERATIONS), visit(DASHBOARD)
    chart = page.locator("#throughput .chart")
    before = chart.get_attribute("data-last")
    job.feed(200)
    page.wait_for_function(
        "before => document.querySelector('#throughput .chart').dataset.last > before", arg=before
    )
    until(lambda: tile(overview, "Records") == f"{job.fed:,}")


def test_what_decisions_cost_has_a_tile_while_they_cost_something(job, visit):
    page = visit(DASHBOARD)
    cost = page.locator(".tile", has_text="Cost of a decision")
    until(lambda: tile(page, "Records") == f"{job.fed:,}")
    assert not cost.is_visible()
    queue_command(job.config.state, Command("decide", decision={"costs": {"sky": {"path": 10}}}))
    job.feed(300)
    until(lambda: tile(page, "Records") == f"{job.fed:,}")
    job.answer(job.open_ids())
    job.feed(100)
    cost.wait_for()
    assert " to " in cost.locator(".note").inner_text()
    queue_command(job.config.state, Command("decide", decision={}))
    job.feed(50)
    cost.wait_for(state="hidden")


def test_the_address_of_a_panel_leads_to_it_and_not_to_the_top_of_a_long_page(visit):
    page = visit(f"{QUALITY}#committee-size", viewport={"width": 1280, "height": 800})
    page.locator("#committee-size canvas").wait_for()
    seen = "one => { const at = one.getBoundingClientRect(); return at.top >= 0 && at.top < 800 }"
    assert page.evaluate("document.documentElement.scrollHeight") > 3 * 800
    until(lambda: page.locator("#committee-size-title").evaluate(seen))


@pytest.mark.parametrize(
    ("anchor", "part"),
    [("annotators", LABELLING), ("class-mix", DRIFT), ("lag", OPERATIONS), ("metrics", QUALITY)],
)
def test_an_anchor_of_the_one_page_that_the_dashboard_was_leads_to_its_part(anchor, part, visit):
    page = visit(DASHBOARD)
    page.goto(f"{page.url}#{anchor}")
    page.reload()
    arrived(page, f"**{part}#{anchor}")
    page.locator(f"#{anchor}-title").wait_for(state="attached")


def test_the_overview_fits_one_screen_and_two_of_a_phone_and_leads_on(visit):
    page = visit(DASHBOARD, viewport={"width": 1440, "height": 900})
    page.locator("#accuracy canvas").wait_for()
    page.locator("#next-steps a").first.wait_for()
    for width, height, screens in ((1440, 900, 1), (390, 844, 2)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(
            "most => document.documentElement.scrollHeight <= most", arg=screens * height
        )
    steps, spans, chart = (
        page.locator(one).bounding_box()["y"] for one in ("#next-steps", ".spans", "#accuracy")
    )
    assert steps < spans < chart, "a phone shows what to do before the chart"
    page.locator("#next-steps").get_by_role("link", name="Label records").click()
    arrived(page, "**/label?pipeline=segments")


def test_the_method_of_a_figure_is_shown_on_request(visit):
    page = visit(QUALITY)
    about = page.locator("#classes").get_by_text("share of a class that was found")
    assert not about.is_visible()
    page.get_by_label("About: Classes").focus()
    page.keyboard.press("Enter")
    about.wait_for()
    page.keyboard.press("Escape")
    about.wait_for(state="hidden")
    page.keyboard.press("Enter")
    about.wait_for()
    about.click()  # such as to select its text
    assert about.is_visible()
    page.get_by_role("heading", level=1).click()
    about.wait_for(state="hidden")


@pytest.fixture
def pausable(job):
    """A pipeline that is not left paused, whatever fails."""
    yield job
    if job.status.document("learner").get("paused"):
        queue_command(job.config.state, Command("resume"))
        job.feed(1)
        until(lambda: not job.status.document("learner").get("paused"))


def test_the_line_of_a_paused_pipeline_leads_to_where_it_is_resumed(pausable, visit):
    page = visit(QUALITY, "bob")
    line = page.locator(".state")
    assert_says(line, RUNNING)
    queue_command(pausable.config.state, Command("pause"))
    pausable.feed(1)
    assert_says(line, "Paused")
    until(lambda: "warn" in line.get_attribute("class"))
    line.get_by_role("link", name="training is paused").click()
    arrived(page, "**/versions?pipeline=segments#steer")
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Yes, do it").click()
    page.get_by_text("Queued: resume").wait_for()
    pausable.feed(1)
    assert_says(line, RUNNING)


def test_the_line_of_a_paused_pipeline_is_accessible(pausable, visit):
    page = visit(DASHBOARD, bypass_csp=True)
    queue_command(pausable.config.state, Command("pause"))
    pausable.feed(1)
    assert_says(page.locator(".state"), "Paused")
    assert_accessible(page)


def test_the_line_turns_grey_while_serve_is_silent_and_back(job, visit):
    page = visit(DASHBOARD)
    line = page.locator(".state")
    assert_says(line, RUNNING)
    job.serving.send_signal(signal.SIGSTOP)
    try:
        assert_says(line, "No contact")
        assert "no answer from the server for" in line.inner_text()
        assert "grey" in line.get_attribute("class")
    finally:
        job.serving.send_signal(signal.SIGCONT)
    assert_says(line, RUNNING)


def test_the_line_says_since_when_a_pipeline_that_stands_still_is_silent_until_it_goes_on(
    job, visit
):
    page = visit(DASHBOARD)
    line = page.locator(".state")
    assert_says(line, RUNNING)
    job.running.send_signal(signal.SIGSTOP)
    try:
        assert_says(line, "Unresponsive")
        beat = job.status.document("heartbeat") or job.status.document("pipeline")
        assert f"no heartbeat since {time_text(beat['time'])}" in line.inner_text()
        assert "grey" in line.get_attribute("class")
        page.reload()  # also to whoever comes now
        assert_says(line, "Unresponsive")
    finally:
        job.running.send_signal(signal.SIGCONT)
    assert_says(line, RUNNING)
    job.feed(1)
    until(lambda: tile(page, "Records") == f"{job.fed:,}")


def test_a_page_that_was_told_of_changes_shows_what_one_opened_later_does(job, visit):
    page, overview = visit(OPERATIONS), visit(DASHBOARD)
    page.locator("#throughput canvas").wait_for()
    for _ in range(3):
        job.feed(60)
        until(lambda: tile(overview, "Records") == f"{job.fed:,}")
    later = visit(OPERATIONS)
    later.locator("#throughput canvas").wait_for()
    # Only what was committed last is left to draw; what nothing follows is drawn, too.
    until(lambda: drawn(page) == drawn(later), seconds=30)
    assert any(bars for _, bars in drawn(page)[0])


def drawn(page):
    """Return what tables say and how long their bars are, and where the charts' points lie."""
    tables = page.locator(".panels section .body > .scroll").evaluate_all(
        "all => all.map((one) => [one.innerText,"
        " [...one.querySelectorAll('.fill')].map((bar) => bar.style.width)])"
    )
    charts = page.locator(".chart").evaluate_all(
        "all => all.map(({ dataset: { points, first, last, from, to } }) =>"
        " [points, first, last, from, to])"
    )
    return tables, charts


def assert_says(line, word):
    from playwright.sync_api import expect  # loaded only where a browser is

    expect(line.locator(".chip")).to_contain_text(word, timeout=60_000)


def test_several_pipelines_are_shown_at_a_glance(job, visit):
    page = visit("/", bypass_csp=True)
    rows = page.locator(".overview li")
    assert [rows.nth(i).get_by_role("heading").inner_text() for i in (0, 1)] == [
        "segments",
        "later",
    ]
    until(lambda: f"{job.fed:,}" in rows.nth(0).inner_text())
    assert_accessible(page)


def test_the_glance_at_a_pipeline_leads_to_its_page(job, visit):
    page = visit("/")
    page.get_by_role("link", name="segments").last.click()
    page.wait_for_selector("#accuracy canvas")


@pytest.mark.parametrize(
    "path", ["/?pipeline=later", "/operations?pipeline=later", "/label?pipeline=later"]
)
def test_a_pipeline_that_has_not_begun_says_how_to_begin(path, visit):
    page = visit(path, bypass_csp=True)
    assert 'start it with "streamboost run"' in page.locator("main").inner_text()
    assert page.locator("canvas").count() == page.locator("tbody tr").count() == 0
    assert_accessible(page)


def test_an_unknown_pipeline_is_a_plain_404(job, chromium):
    context = chromium.new_context()
    link = job.links["ann"].pop()
    log_in(context, link)
    answer = context.request.get(link.partition("/login")[0] + "/?pipeline=none")
    assert (answer.status, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
    context.close()


@pytest.mark.parametrize(
    ("path", "theme"),
    [
        *((DASHBOARD, "light"), (QUALITY, "light"), (LABELLING, "dark"), (DRIFT, "light")),
        *((OPERATIONS, "dark"), ("/label", "dark")),
        *slow((DASHBOARD, "dark"), (QUALITY, "dark"), ("/label", "light")),
    ],
)
def test_a_page_is_accessible_fits_a_phone_and_follows_the_theme(path, theme, visit):
    page = visit(path, color_scheme=theme, bypass_csp=True)  # axe brings styles of its own
    page.wait_for_selector({"/label": ".choice", DRIFT: "tbody tr"}.get(path, "canvas"))
    brightness = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert (min(brightness) > 200) if theme == "light" else (max(brightness) < 60)
    assert_accessible(page)
    assert_fits(page, f"{path.partition('?')[0].strip('/') or 'overview'}-{theme}")


def test_images_that_a_text_holds_are_shown_on_the_pages_of_records_alone(visit):
    page = visit(DASHBOARD)
    for path, allowed in ((DASHBOARD, "'self';"), ("/label", "'self' data:;")):
        answer = page.request.get(page.url.partition("/?")[0] + path)
        assert f"img-src {allowed}" in answer.headers["content-security-policy"]
    icon = page.locator("link[rel~=icon]").get_attribute("href")
    found = page.request.get(page.url.partition("/?")[0] + icon)
    assert (found.status, found.headers["content-type"]) == (200, "image/svg+xml")
