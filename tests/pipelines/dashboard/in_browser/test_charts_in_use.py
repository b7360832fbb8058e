"""Charts in a real browser: hover, hidden series and time range persist as data arrive."""

import pytest
from waiting import until

from streamboost.pipelines.dashboard.overview import CHARTS_EVERY, TABLES_EVERY
from streamboost.pipelines.dashboard.panels import NO_VALUES
from streamboost.pipelines.dashboard.view import EVERY
from tests.pipelines.dashboard.in_browser.browsing import (
    DASHBOARD,
    OPERATIONS,
    QUALITY,
    RUNNING,
    in_a_browser,
    text_of,
)
from tests.pipelines.dashboard.in_browser.conftest import log_in

pytestmark = [*in_a_browser, pytest.mark.slow]

UPDATES = TABLES_EVERY + 1
"""Number of updates within which all charts and tables are drawn again."""

OUT = """async () => {
  const { echarts } = await import("nicegui-echart");
  const chart = echarts.getInstanceByDom(document.querySelector("#accuracy .chart"));
  return chart.getOption().legend[0].selected;
}"""


def settled(page, chart="throughput", table="counters"):
    """Return the page once all of it is there, and nothing moves any more."""
    page.locator(".state .chip", has_text=RUNNING).wait_for()
    page.locator(f"#{table} tbody tr").first.wait_for()
    page.locator(f"#{chart} canvas").wait_for()
    page.wait_for_function("() => window.did_handshake")
    seen = []

    def stands():
        seen.append(page.locator(f"#{chart} .chart").bounding_box())
        return len(seen) > 3 and seen[-1] == seen[-4]

    until(stands)
    return page


def update(job, page):
    """Have the pipeline read one more record, and its pages show that."""
    before = job.status.chart_points()[-1]["time"]
    job.feed(1)
    until(lambda: job.status.chart_points()[-1]["time"] > before)
    page.wait_for_timeout(1_000 * (CHARTS_EVERY + 1) * EVERY)


def shown(page, name):
    return tuple(
        page.locator(f"#{name} .chart").get_attribute(f"data-{end}") for end in ("from", "to")
    )


def shown_by_all(page):
    """Return the stretches of all charts that there are: of some, a stretch has nothing to draw."""
    seen = page.locator(".chart").evaluate_all(
        "all => all.filter((one) => one.offsetParent)"
        ".map((one) => [one.dataset.from, one.dataset.to])"
    )
    assert len(seen) > 1
    return {tuple(ends) for ends in seen}


def length(ends):
    return int(ends[1]) - int(ends[0])


def drag(page, name, start, end):
    box = page.locator(f"#{name} .chart").bounding_box()
    height = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], height)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], height, steps=4)
    page.mouse.up()


def test_what_is_not_drawn_waits_for_nothing_that_draws(visit):
    page, held, freed = visit("/label"), [], []
    page.route("**/esm/**", lambda route: route.continue_() if freed else held.append(route))
    page.goto(page.url.replace("/label", OPERATIONS))
    until(lambda: page.wait_for_timeout(50) or held)
    page.locator("#counters tbody tr").first.wait_for()
    assert page.locator("canvas").count() == 0
    freed.append(True)
    for route in held:
        route.continue_()
    page.locator("#throughput canvas").wait_for()


def test_the_stretch_is_chosen_by_keys_too_and_moves_with_time(job, visit):
    page = settled(visit(OPERATIONS))
    whole = shown(page, "latency")
    page.get_by_role("button", name="Zoom in").focus()
    page.keyboard.press("Enter")
    until(lambda: " to " in page.locator(".spans .told").inner_text())
    until(lambda: int(shown(page, "latency")[0]) > int(whole[0]))
    until(lambda: len(shown_by_all(page)) == 1)
    closer = shown(page, "latency")
    for _ in range(UPDATES):
        update(job, page)
        assert shown_by_all(page) == {closer}
    page.get_by_role("button", name="Earlier").focus()
    page.keyboard.press("Enter")
    until(lambda: int(shown(page, "latency")[1]) < int(closer[1]))
    page.get_by_role("button", name="5 min").focus()
    page.keyboard.press("Enter")
    page.locator(".spans [aria-pressed=true]", has_text="5 min").wait_for()
    before = shown(page, "latency")
    update(job, page)
    until(lambda: int(shown(page, "latency")[1]) > int(before[1]))
    ends = [int(one) for one in shown(page, "latency")]
    assert ends[1] - ends[0] <= 300_000


def test_what_is_pointed_at_is_told_with_its_interval_and_goes_on_being_told(job, visit):
    page = settled(visit(QUALITY), "accuracy", "metrics")
    chart = page.locator("#accuracy .chart")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.5 * box["height"])
    until(lambda: chart.get_attribute("data-told"))
    for _ in range(3):
        chart.evaluate("one => delete one.dataset.told")
        update(job, page)
        until(lambda: chart.get_attribute("data-told"))
    told = chart.get_attribute("data-told").split("\n")
    assert "\u00a0% to " in next(line for line in told if line.startswith("95 % interval"))


def test_a_curve_that_was_left_out_stays_out(job, visit):
    page = settled(visit(QUALITY), "accuracy", "metrics")
    chart = page.locator("#accuracy .chart")
    chart.click(position={"x": 40, "y": 13})
    until(lambda: page.evaluate(OUT).get("unbiased") is False)
    for _ in range(3):
        update(job, page)
    assert page.evaluate(OUT)["unbiased"] is False


def test_a_browser_that_was_cut_off_has_everything_when_it_is_back(job, chromium):
    context = chromium.new_context()
    context.set_default_timeout(60_000)
    link = job.links["ann"].pop()
    log_in(context, link)
    page = context.new_page()
    page.goto(link.partition("/login")[0] + OPERATIONS)
    page.locator("#throughput canvas").wait_for()
    context.set_offline(True)
    page.evaluate("window.socket.io.engine.close()")
    page.locator(".state .chip", has_text="No contact").wait_for(timeout=60_000)
    for _ in range(3):
        before = job.status.chart_points()[-1]["time"]
        job.feed(10)
        until(lambda: job.status.chart_points()[-1]["time"] > before)  # noqa: B023
    last = job.status.chart_points()[-1]["time"]
    context.set_offline(False)
    chart = page.locator("#throughput .chart")
    # A page that was offline for long is reloaded, and has no chart at first.
    until(lambda: int(chart.get_attribute("data-last") or 0) >= last)
    assert int(chart.get_attribute("data-points")) > 3
    context.close()


def test_a_page_without_its_connection_for_seconds_is_not_loaded_again(job, chromium):
    context = chromium.new_context()
    context.set_default_timeout(60_000)
    link = job.links["ann"].pop()
    log_in(context, link)
    page = context.new_page()
    page.goto(link.partition("/login")[0] + DASHBOARD)
    page.locator(".state .chip", has_text=RUNNING).wait_for()
    page.evaluate("window.isKept = true")
    context.set_offline(True)
    page.evaluate("window.socket.io.engine.close()")
    # The client tries again at growing intervals: after 2 s the next try is at most 6 s away, and
    # the page is kept for `RECONNECT_TIMEOUT`.
    page.wait_for_timeout(2_000)
    context.set_offline(False)
    page.wait_for_function("() => window.socket.connected")
    update(job, page)
    assert page.evaluate("window.isKept") is True
    context.close()


# The last ones, when the pipeline has run for long enough to have a stretch to choose.


def test_a_stretch_dragged_over_one_chart_is_shown_by_all_and_kept_over_updates(job, visit):
    page = settled(visit(OPERATIONS))
    while length(whole := shown(page, "latency")) < 20_000:
        update(job, page)
    page.locator("#throughput .chart").scroll_into_view_if_needed()
    drag(page, "throughput", 0.4, 0.7)
    until(lambda: " to " in page.locator(".spans .told").inner_text())
    until(lambda: shown(page, "throughput") == shown(page, "latency") != whole)
    until(lambda: len(shown_by_all(page)) == 1)
    chosen = shown(page, "throughput")
    assert int(whole[0]) < int(chosen[0]) < int(chosen[1]) < int(whole[1])
    for _ in range(UPDATES):
        update(job, page)
        assert shown_by_all(page) == {chosen}
    assert page.locator(".spans [aria-pressed=true]").count() == 0


def test_charts_stay_and_are_empty_in_a_time_range_before_the_first_point(job, visit):
    page = settled(visit(OPERATIONS))
    while length(shown(page, "throughput")) < 20_000:
        update(job, page)
    first = int(shown(page, "throughput")[0])
    chart = page.locator("#throughput .chart")
    names = page.locator(".chart").count()

    def press(button):
        before = shown(page, "throughput")
        page.get_by_role("button", name=button).click()
        until(lambda: shown(page, "throughput") != before)

    press("Zoom in")
    while int(shown(page, "throughput")[1]) >= first:
        press("Earlier")
    until(lambda: len(shown_by_all(page)) == 1)
    (empty,) = shown_by_all(page)
    for name in ("throughput", "latency"):
        assert shown(page, name) == empty
        assert page.locator(f"#{name} .chart").get_attribute("data-points") == "0"
        assert text_of(page, f"#{name} .summary") == NO_VALUES
    assert page.locator(".chart").count() >= names
    chart.scroll_into_view_if_needed()
    chart.hover()  # nothing is there to point at
    for _ in range(3):
        update(job, page)
        assert shown_by_all(page) == {empty}
    drag(page, "throughput", 0.3, 0.8)
    until(lambda: shown(page, "throughput") != empty)
    dragged = shown(page, "throughput")
    assert int(empty[0]) < int(dragged[0]) < int(dragged[1]) < int(empty[1])
    page.get_by_role("button", name="All").click()
    until(lambda: int(chart.get_attribute("data-points")) > 3)
    assert "per second" in text_of(page, "#throughput .summary")
