"""The labelling page in a real browser: answered by keys, alone or beside others."""

import sqlite3
from contextlib import closing

from waiting import until

from tests.pipelines.service.pages.in_browser.browsing import (
    DASHBOARD,
    SCRIPT,
    in_a_browser,
    record,
    text_of,
    tile,
    wait_for_record_after,
)

pytestmark = in_a_browser


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
    assert f"{SCRIPT} {record(page)}" in page.locator(".fields dd").all_inner_texts()
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


def type_class(page, text):
    page.get_by_label("Another class").fill(text)
    page.get_by_role("button", name="Give").click()


def test_a_new_class_near_an_old_one_is_asked_about_first(job, visit):
    page = visit("/label")
    id, name = record(page), page.locator(".choice .name").first.inner_text()
    type_class(page, f" {name.upper()} ")
    page.wait_for_selector(".doubt")
    assert f"{name.upper()} would be a new class. Is it {name}?" in text_of(page, ".doubt")
    assert page.evaluate("document.activeElement.textContent") == f"Yes, it is {name}"
    assert record(page) == id, "nothing is given yet"
    page.keyboard.press("Enter")
    wait_for_record_after(page, id)
    assert f"Record {id} is {name}." in text_of(page, ".said")
    page.keyboard.press("u")
    until(lambda: record(page) == id)
    type_class(page, "quite another")
    wait_for_record_after(page, id)
    assert f"Record {id} is quite another." in text_of(page, ".said")
    page.keyboard.press("u")
    until(lambda: record(page) == id)


def test_what_is_no_answer_labels_nothing(job, visit):
    page = visit("/label")
    record(page)

    def give(given):
        # One that comes as the page turns to a more useful record is passed over.
        page.evaluate(
            "given => { const element = document.querySelector('.answers');"
            " const answers = getElement(+element.id.slice(1));"
            " answers.$emit('given', {turn: answers.turn, ...given}) }",
            page.evaluate(f"({given})"),
        )

    before = len(job.given())
    for given in ("{action: 'label', label: null}", "{action: 'explode'}", "{}", "{label: ['x']}"):
        until(lambda given=given: give(given) or "That is no answer" in text_of(page, ".said"))
        # A key that is pressed before the page has the next turn is passed over.
        until(lambda: page.keyboard.press("u") or "nothing to undo" in text_of(page, ".said"))
    assert len(job.given()) == before
    assert "None" not in [choice["label"] for choice in job.given()]


def test_text_of_a_record_turns_nothing_around_it(visit):
    page = visit("/label")
    record(page)
    shown = page.get_by_text("ab⟨U+202E⟩cd").first
    assert shown.evaluate("element => element.tagName") == "BDI"
    assert page.locator("#record-title bdi").count() == 1
