"""Drill-down from a metric to its records in a real browser, by mouse and by keyboard."""

import json
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from serving import put
from waiting import until

from streamboost.pipelines.dashboard.versions import default_baseline_version
from streamboost.pipelines.status.record_filter import RecordFilter
from tests.pipelines.dashboard.in_browser.browsing import (
    DASHBOARD,
    LABELLING,
    RUNNING,
    SCRIPT,
    arrived,
    assert_accessible,
    assert_fits,
    by_keys,
    by_mouse,
    explained,
    in_a_browser,
    segments,
    text_of,
)

pytestmark = [*in_a_browser, pytest.mark.slow]

PAGES = ("records", "versions", "features", "dead-letters")


def test_a_phone_shows_what_each_feature_did_without_scrolling_sideways(answered, visit):
    page = visit(
        f"/record?pipeline=segments&id={explained(answered)[0]['id']}",
        viewport={"width": 390, "height": 844},
    )
    table = page.locator("#why .scroll").first
    table.wait_for()
    assert table.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_an_operator_changes_a_label_from_its_records_page(answered, visit):
    one = explained(answered)[0]
    page = visit(f"/record?pipeline=segments&id={one['id']}", "bob", bypass_csp=True)
    assert page.locator("#nearest-labelled-records img.thumb").count() > 0
    by_keys(page.get_by_role("link", name="Change the label"))
    page.wait_for_selector(".changing:focus")
    assert f"Record {one['id']} is {one['truth']}" in text_of(page, ".changing")
    assert text_of(page, "#record-title") == f"Record {one['id']}"
    assert page.locator(".fields img").count() == 1
    name = next(n for n in page.locator(".choice .name").all_inner_texts() if n != one["truth"])
    page.get_by_role("button", name=name).first.click()
    page.locator(".said", has_text=f"Record {one['id']} is {name} now").wait_for()
    until(lambda: answered.status.labelled_record(one["id"])["truth"] == name)
    page.goto(page.url.partition("/label")[0] + f"/record?pipeline=segments&id={one['id']}")
    wrong, right, disputed = (
        page.locator("p", has_text=text)
        for text in (f"bob says it is {name}", "That was right, says bob", f"of bob: {name}")
    )
    wrong.or_(right).or_(disputed).first.wait_for()
    assert_accessible(page)


def test_whoever_may_not_change_a_label_is_told_so(answered, visit):
    one = explained(answered)[0]
    page = visit(f"/record?pipeline=segments&id={one['id']}")
    assert page.get_by_role("link", name="Change the label").count() == 0
    page.goto(page.url.partition("/record")[0] + f"/label?pipeline=segments&change={one['id']}")
    page.locator(".said", has_text=f"You cannot change the label of record {one['id']}").wait_for()
    assert page.locator(".changing").count() == 0


def test_a_record_is_found_by_its_id_and_one_that_is_not_kept_says_so(answered, visit):
    page = visit(DASHBOARD)
    id = explained(answered)[0]["id"]
    page.get_by_role("searchbox").fill(id)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"Record {id}").wait_for()
    page.get_by_role("searchbox").fill(id[:1])
    page.get_by_role("button", name="Find").click()
    page.get_by_text(f"Record {id[:1]} was never requested").wait_for()
    page.locator(".alike").get_by_role("link").first.click()
    page.locator("#why").wait_for()
    page.get_by_role("searchbox").fill("<b>nobody's</b>")
    page.keyboard.press("Enter")
    page.get_by_text("Record <b>nobody's</b> was never requested").wait_for()
    assert page.locator(".content b").count() == 0


@pytest.mark.parametrize("press", [by_mouse, by_keys])
def test_an_operator_rolls_back_after_a_question_and_a_annotator_cannot(job, visit, press):
    kept = lambda: [one["version"] for one in job.figure("learner", "versions")]  # noqa: E731
    page = visit("/versions?pipeline=segments", "bob")
    button = page.get_by_role("button", name="Roll back to").first
    assert "danger" in button.get_attribute("class")
    assert "danger" not in (page.get_by_role("button", name="Retrain").get_attribute("class") or "")
    button.wait_for()
    wanted = int(button.inner_text().split()[-1])
    assert wanted in kept()
    press(button)
    press(page.get_by_role("button", name="No", exact=True))
    press(button)
    asked = page.locator(".doubt").inner_text()
    assert f"Roll back to version {wanted}" in asked
    assert "until the next training ends, unless training is paused" in asked
    assert " fewer than version" in asked or "It is identical to the active version" in asked
    page.get_by_role("button", name="Pause training, and do it").wait_for()
    press(page.get_by_role("button", name="Yes, do it"))
    page.get_by_text(f"Queued: rollback {wanted}").wait_for()
    job.feed(10)
    obeyed = lambda: [one["text"] for one in job.status.chart_marks() if one["kind"] == "command"]  # noqa: E731
    until(lambda: f"rollback {wanted}" in obeyed())
    page.locator(".said", has_text=f"rollback {wanted}. Version").wait_for()
    assert "Queued" not in text_of(page, ".said")
    again = page.locator("#all tbody th", has_text=f"(a copy of {wanted})").first
    again.wait_for()
    number = again.inner_text().split()[0]
    until(lambda: number in page.locator("#version-b option").all_inner_texts())
    page.goto(f"{page.url}&a={number}")
    assert text_of(page, "#since-title") == f"Since version {number} (a copy of {wanted})"
    annotator = visit("/versions?pipeline=segments")
    annotator.get_by_text("Only operators can give commands").wait_for()
    assert annotator.locator("#steer button").count() == 0


def test_two_versions_stand_side_by_side(job, visit):
    page = visit("/versions?pipeline=segments")
    numbers = page.locator("#version-a option").all_inner_texts()
    page.select_option("#version-a", numbers[-1])
    page.select_option("#version-b", numbers[0])
    page.get_by_role("button", name="Compare").click()
    arrived(page, f"**a={numbers[-1]}&b={numbers[0]}")
    heads = page.locator("#sides thead th").all_inner_texts()
    assert heads[1:3] == [f"Version {numbers[-1]}", f"Version {numbers[0]}"]
    assert "Recall of " in page.locator("#sides tbody").inner_text()
    assert page.locator("#weigh tbody tr").count() > 0
    span = f"From version {numbers[-1]} to {numbers[0]}"
    assert page.locator("#since-title").inner_text().startswith(span), "which may be a copy"
    assert page.locator("#since thead th").all_inner_texts()[2] == "Recall in range"
    other_way = f"/versions?pipeline=segments&a={numbers[0]}&b={numbers[-1]}"
    page.goto(page.url.partition("/versions")[0] + other_way)
    assert page.locator("#since-title").inner_text().startswith(span)
    page.goto(page.url.partition("/versions")[0] + f"/records?pipeline=segments&until={numbers[0]}")
    page.get_by_text(f"predicted by version {numbers[0]} or earlier").wait_for()


def test_in_place_of_a_version_of_which_nothing_is_kept_stands_the_nearest_and_stays(job, visit):
    page = visit("/versions?pipeline=segments&b=0")
    first = page.locator("#version-a option").all_inner_texts()[-1]
    page.get_by_text(f"No usable labels are kept for version 0; {first} is the nearest.").wait_for()
    assert page.locator("#version-b").input_value() == first
    page.locator("#all tbody a").first.click()
    arrived(page, f"**&b={first}")
    page.goto(f"{page.url.partition('/versions')[0]}/versions?pipeline=segments&a=999999")
    newest = page.locator("#version-a").input_value()
    page.get_by_text(
        f"No usable labels are kept for version 999999; {newest} is the nearest."
    ).wait_for()


def test_versions_begins_with_one_that_it_names_and_offers_all_that_labels_tell_of(answered, visit):
    page = visit("/versions?pipeline=segments")
    chosen = page.locator("#version-a").input_value()
    comparisons = answered.status.document("comparisons")["versions"]
    if any(one["difference"] for one in comparisons[-1:]):
        assert int(chosen) >= comparisons[-1]["first"]
        page.get_by_text("As in the comparison on the same records above").wait_for()
    else:
        assert chosen == str(default_baseline_version(answered.status.labelled_predictions()))
        page.get_by_text(f"Default baseline: version {chosen};").wait_for()
    offered = set(map(int, page.locator("#version-a option").all_inner_texts()))
    assert offered >= {one.version for one in answered.status.labelled_predictions()}
    gone = sorted(set(range(min(offered), max(offered))) - offered)
    said = page.get_by_text("Versions without usable labels")
    assert said.count() == bool(gone)
    for number in gone[:1]:  # it may be compared all the same
        page.goto(f"{page.url}&a={number}")
        assert text_of(page, "#since-title") == f"Since version {number}"
        page.get_by_text(f"No model of version {number} is kept").wait_for()
    page.get_by_role("button", name="Compare").click()
    arrived(page, f"**a={gone[0] if gone else chosen}&b=")
    assert page.get_by_text("Default baseline").count() == 0


def test_the_mistakes_of_a_class_since_a_version_are_as_many_as_its_records(answered, visit):
    page = visit("/versions?pipeline=segments")
    first = page.locator("#version-a option").all_inner_texts()[-1]
    page.goto(f"{page.url}&a={first}")
    assert page.locator("#since-title").inner_text() == f"Since version {first}"
    link = page.locator("#since tbody a").first
    wrong = int(link.inner_text().split()[0])
    by_keys(link)
    arrived(page, f"**since={first}&wrong=true")
    assert f"predicted wrongly by version {first} or later" in text_of(page, ".summary")
    assert page.locator("#content tbody tr").count() == wrong > 0


def test_above_a_list_stands_what_all_its_records_were_predicted_as_and_each_leads_on(
    answered, visit
):
    truth = explained(answered)[0]["truth"]
    page = visit(f"/records?pipeline=segments&true={truth}")
    first = page.locator("#sums a").first
    said = first.inner_text()
    n = int(page.locator("#sums a + span").first.inner_text().strip(" ,."))
    assert (truth, said, n) in answered.status.class_counts(RecordFilter(truth=truth))
    by_keys(first)
    arrived(page, f"**true={truth}&predicted={said}")
    assert page.locator("#listed tbody tr").count() == n
    assert page.locator("#sums").count() == 0
    page.goto(page.url.partition("?")[0] + f"?pipeline=segments&predicted={said}")
    assert text_of(page, "#sums").startswith("True classes: ")


def test_mistakes_are_listed_without_those_that_are_open_and_these_are_a_link_away(answered, visit):
    mistakes = answered.status.labelled_records(RecordFilter(wrong=True, disputed=False))
    wrong = next(one for one in mistakes if one["label"] and len(one["labels"]) == 1)
    said = [{"id": wrong["id"], "label": wrong["label"], "source": name} for name in ("zoe", "yan")]
    again = {"id": wrong["id"], "label": wrong["truth"]}
    put(answered.config, "labels", [*said, again])  # the last one counts, and is not theirs
    disputed = lambda: [  # noqa: E731
        one["id"]
        for one in answered.status.labelled_records(RecordFilter(wrong=True, disputed=True))
    ]
    until(lambda: wrong["id"] in disputed())
    page = visit("/records?pipeline=segments&wrong=true")
    kept = page.get_by_role("link", name=wrong["id"], exact=True)
    page.locator("#left-out").wait_for()
    assert kept.count() == 0
    page.locator("#left-out a").click()
    arrived(page, "**wrong=true&disputed=true")
    kept.wait_for()
    row = page.locator("#listed tbody tr").filter(has=kept)
    assert f"{wrong['truth']} (disputed)" in row.inner_text()
    assert page.locator("#listed tbody tr").count() == len(disputed())


def test_dead_letters_are_filtered_by_reason_and_one_is_mended_and_sent_again(job, visit):
    put(job.config, "labels", [{"id": "3"}])
    until(lambda: len(job.status.dead_letters()) >= 2)
    page = visit("/dead-letters?pipeline=segments", "bob")
    page.get_by_role("link", name="missing_id 1").click()
    arrived(page, "**reason=missing_id")
    assert page.locator(".letters > li").count() == 1
    by_keys(page.locator(".letters summary"))
    assert SCRIPT.replace('"', '\\"') in text_of(page, ".letters pre")
    page.get_by_label("Fix and resend it").fill('{"text": "still no id"}')
    page.get_by_role("button", name="Resend").click()
    page.locator(".said", has_text="id").wait_for()
    (fixed,) = segments(job.fed, 1)  # whole, as its label may be requested in another test
    page.get_by_label("Fix and resend it").fill(json.dumps(fixed))
    page.get_by_role("button", name="Resend").click()
    page.get_by_text("Resent to the records").wait_for()
    job.fed += 1
    annotator = visit("/dead-letters?pipeline=segments&reason=missing_id")
    annotator.locator(".letters summary").click()
    annotator.get_by_text("Only operators can resend messages").wait_for()
    assert annotator.locator("textarea").count() == 0


def test_a_version_is_compared_with_what_serves_by_now_unless_another_is_named(job, visit):
    page = visit("/versions?pipeline=segments", "bob")
    first = page.locator("#version-a option").all_inner_texts()[-1]
    before = job.status.versions()[-1]["version"]
    page.get_by_role("button", name="Retrain").click()
    page.get_by_role("button", name="Yes, do it").click()
    page.get_by_text("Queued: retrain").or_(page.get_by_text("Done at")).first.wait_for()
    job.feed(10)
    until(lambda: job.status.versions()[-1]["version"] > before)
    page.select_option("#version-a", first)
    page.get_by_role("button", name="Compare").click()
    arrived(page, f"**a={first}&b=")
    heads = page.locator("#sides thead th").all_inner_texts()
    assert heads[1] == f"Version {first}"
    assert int(heads[2].split()[-1]) > before


@pytest.mark.parametrize("follow", [by_mouse, by_keys])
def test_what_could_not_be_used_is_counted_on_every_page_and_leads_to_why(job, visit, follow):
    n = job.figure("join", "dead_letters")
    page = visit("/versions?pipeline=segments")
    follow(page.get_by_role("link", name=f"Dead letters {n}", exact=True))
    arrived(page, "**/dead-letters?pipeline=segments")
    follow(page.get_by_role("link", name="Operations"))
    follow(page.get_by_role("link", name="Summary"))
    panel = page.locator("#counters")
    panel.get_by_text("could not be used").wait_for()
    follow(panel.get_by_role("link", name=f"{n}", exact=True))
    arrived(page, "**/dead-letters?pipeline=segments")


def test_whoever_labels_against_others_is_in_a_table_that_nothing_cuts_off(answered, visit):
    ids = [one["id"] for one in answered.status.labelled_records(RecordFilter(), limit=6)]
    for source, label in (("somebody with a rather long name", "grass"), ("eve", "sky")):
        more = [{"id": id, "label": label, "source": source} for id in ids]
        put(answered.config, "labels", more)
    together = lambda: answered.status.document("annotators").get("eve", {}).get("together")  # noqa: E731
    until(lambda: together() == len(ids))
    page = visit(LABELLING)
    link = page.locator("#annotators").get_by_role("link", name="eve", exact=True)
    link.wait_for()
    table = page.locator("#annotators .scroll")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert table.evaluate("one => one.scrollWidth <= one.clientWidth"), width
        for head in page.locator("#annotators thead th").all():
            assert head.evaluate("one => one.scrollWidth <= one.clientWidth"), width
            right = table.evaluate("one => one.getBoundingClientRect().right")
            assert head.evaluate("one => one.getBoundingClientRect().right") <= right, width
    by_keys(link)
    arrived(page, "**by=eve")
    page.locator("#content tbody tr").first.wait_for()


def test_on_a_phone_a_row_of_records_is_one_line_high_and_what_leads_on_looks_like_it(
    answered, visit
):
    page = visit("/records?pipeline=segments&after=1", viewport={"width": 390, "height": 844})
    row = page.locator("#listed tbody tr").first
    row.wait_for()
    assert row.bounding_box()["height"] < 45
    link = page.locator(".paging a").first
    drawn = link.evaluate("one => getComputedStyle(one).textDecorationLine")
    assert drawn == "underline"
    boxes = [one.bounding_box() for one in page.locator(".paging > *").all()]
    assert len({round(box["y"] + box["height"] / 2) for box in boxes}) == 1, "on one line"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_table_that_is_cut_off_has_a_shadow_at_that_side_and_can_be_scrolled_by_keys(
    answered, visit, theme
):
    size = {"width": 390, "height": 844}
    page = visit("/records?pipeline=segments", viewport=size, color_scheme=theme)
    table = page.get_by_role("region", name="Table: Records")
    table.wait_for()

    def shadow():
        """Return the difference in brightness between the right edge and the area left of it."""
        pixels = np.asarray(Image.open(BytesIO(table.screenshot())).convert("L"), dtype=float)
        right = pixels[60:, -3:]
        return abs(np.median(right) - np.median(pixels[60:, -40:]))

    cut = shadow()
    table.focus()
    for _ in range(60):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "one => one.scrollLeft + one.clientWidth >= one.scrollWidth - 1", arg=table.element_handle()
    )
    assert cut > 20 > 3 > shadow()


@pytest.mark.parametrize("path", ["record", *PAGES])
def test_every_page_of_causes_is_accessible_and_fits_a_phone(answered, visit, path):
    of_record = f"&id={explained(answered)[0]['id']}" if path == "record" else ""
    page = visit(f"/{path}?pipeline=segments{of_record}", "bob", bypass_csp=True)
    page.locator(".state .chip", has_text=RUNNING).wait_for()
    if path == "dead-letters":
        page.locator(".letters summary").first.click()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(
            "is_dark => document.body.classList.contains('body--dark') === is_dark",
            arg=theme == "dark",
        )
        assert_accessible(page)
        assert_fits(page, f"{path}-{theme}")


def test_notice_of_a_lost_connection_is_accessible(job, visit):
    page = visit("/records?pipeline=segments", bypass_csp=True)
    page.locator(".state .chip", has_text=RUNNING).wait_for()
    page.evaluate("document.getElementById('popup').ariaHidden = 'false'")
    page.get_by_role("alert").get_by_text("Connection lost").wait_for()
    assert_accessible(page)
