"""The labelling page in a real browser: answers by key, with one annotator or several."""

import re
import sqlite3
from contextlib import closing

import pytest
from waiting import until

from streamboost.pipelines.dashboard.routes import RECONNECT_TIMEOUT
from streamboost.pipelines.status.record_filter import RecordFilter
from tests.pipelines.dashboard.in_browser.browsing import (
    DASHBOARD,
    PIPELINE,
    SCRIPT,
    assert_accessible,
    in_a_browser,
    record,
    text_of,
    until_said,
    wait_for_record_after,
)
from tests.pipelines.dashboard.in_browser.conftest import have_requests, log_in, process

pytestmark = [*in_a_browser, pytest.mark.slow]


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
        for _ in range(round((RECONNECT_TIMEOUT + 1) / 0.2)):
            second.wait_for_timeout(200)
            assert leases.execute("SELECT 1 FROM leases WHERE id = ?", (had,)).fetchone()


def is_taken_back(page, id):
    """Undo the last answer, which was of the record `id`.

    Return False if its label was written already, as it is after three seconds.
    """
    page.keyboard.press("u")
    said = page.locator(".said").first
    undone, too_late = f"Undone: record {id}", f"of record '{id}' was written already"
    until(lambda: undone in said.inner_text() or too_late in said.inner_text())
    if too_late in said.inner_text():
        return False
    page.wait_for_function(
        "id => document.querySelector('#record-title').textContent === `Record ${id}`", arg=id
    )
    return True


def test_what_was_skipped_or_labelled_can_be_taken_back(visit):
    page = visit("/label")

    def answered_and_undone(key):
        id = record(page)
        page.keyboard.press(key)
        wait_for_record_after(page, id)
        return is_taken_back(page, id)

    for key in ("s", "n", "2"):
        until(lambda key=key: answered_and_undone(key))


def test_undo_is_offered_for_as_long_as_it_is_possible(visit):
    page = visit("/label")
    id = record(page)
    page.keyboard.press("1")
    until_said(page, "Press U within 3 s to undo.")
    wait_for_record_after(page, id)
    page.wait_for_function("() => !document.querySelector('.said').innerText.includes('Press U')")
    assert f"Record {id} is " in text_of(page, ".said")
    assert is_taken_back(page, id) is False


MANY = """() => {
  const { props } = mounted_app.elements[document.querySelector(".answers").id.slice(1)];
  const more = Array.from({ length: 13 }, (_, i) => ({ ...props.choices[0], label: `zeal ${i}`,
    name: `zeal ${i}`, key: null }));
  props.choices = [...props.choices, ...more];
}"""


def test_classes_beyond_twelve_can_be_searched_and_answered_by_keys(visit):
    page = visit("/label", bypass_csp=True)
    id = record(page)
    search = page.get_by_label("Find a class")
    assert search.count() == 0
    page.evaluate(MANY)
    search.wait_for()
    assert_accessible(page)
    page.keyboard.press("/")
    page.keyboard.type("zeal 12")
    page.wait_for_function("document.querySelectorAll('.choice').length === 1")
    search.fill("grass")
    page.keyboard.press("Enter")
    until_said(page, f"Record {id} is grass")


def test_a_page_without_a_websocket_says_that_no_answer_is_possible(visit):
    page = visit("/label", bypass_csp=True)
    page.route_web_socket("**", lambda socket: socket.close())
    page.reload()
    page.get_by_role("alert").get_by_text("let it forward WebSockets").wait_for()
    assert_accessible(page)
    page.close()  # the route of websockets stays with the page


def test_what_ones_labels_have_brought_stands_in_the_tile_of_the_accuracy_too(visit):
    page = visit("/label")
    id = record(page)
    page.keyboard.press("1")
    wait_for_record_after(page, id)
    page.goto(page.url.partition("/label")[0] + DASHBOARD)
    page.locator(".tile .gain", has_text="since your first label").wait_for()


def test_a_record_answered_elsewhere_stays_until_somebody_acts_and_no_key_answers_the_next(
    job, visit
):
    page = visit("/label", bypass_csp=True)  # axe brings styles of its own
    id = record(page)
    job.answer([id])
    page.wait_for_selector(".desk.gone .doubt")
    assert "answered or expired" in text_of(page, ".doubt")
    assert record(page) == id
    assert page.locator(".choice .share", has_text="%").count() == 0
    newest = page.locator(".answered tbody tr").all_inner_texts()[:1]
    page.keyboard.press("1")
    wait_for_record_after(page, id)
    assert page.locator(".gone").count() == 0
    until_said(page, f"Record {id} was answered or expired")
    assert page.locator(".answered tbody tr").all_inner_texts()[:1] == newest, "no answer"
    job.answer([record(page)])
    page.wait_for_selector(".desk.gone .doubt")
    assert_accessible(page)


def test_answer_that_a_locked_file_refuses_says_so_and_can_be_given_again(job, visit):
    page = visit("/label")
    id = record(page)
    path = job.config.state / "labelling.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        page.keyboard.press("1")
        until_said(page, "labelling.db is locked by another process")
        assert record(page) == id
    page.keyboard.press("1")
    wait_for_record_after(page, id)


def test_markup_in_a_record_is_shown_as_text(visit):
    page = visit("/label")
    assert f"{SCRIPT} {record(page)}" in page.locator(".fields dd").all_inner_texts()
    assert page.locator(".fields b").count() == 0


def test_an_image_in_a_record_is_shown_and_one_elsewhere_is_a_link(visit):
    page = visit("/label")
    record(page)
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
    page.get_by_role("button", name="Submit").click()


def test_a_new_class_near_an_old_one_is_asked_about_first(job, visit):
    page = visit("/label")
    id, name = record(page), page.locator(".choice .name").first.inner_text()
    type_class(page, f" {name.upper()} ")
    page.wait_for_selector(".doubt")
    assert f"{name.upper()} is a new class. Did you mean {name}?" in text_of(page, ".doubt")
    assert page.evaluate("document.activeElement.textContent") == f"Yes, it is {name}"
    assert record(page) == id, "nothing is given yet"
    page.keyboard.press("Enter")
    wait_for_record_after(page, id)
    until_said(page, f"Record {id} is {name}.")
    is_taken_back(page, id)
    id = record(page)
    type_class(page, "quite another")
    wait_for_record_after(page, id)
    until_said(page, f"Record {id} is quite another.")
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
    for odd in (None, ["label"], "label", 7):
        page.evaluate(
            "odd => { const element = document.querySelector('.answers');"
            " getElement(+element.id.slice(1)).$emit('given', odd) }",
            odd,
        )
    for given in ("{action: 'label', label: null}", "{action: 'explode'}", "{}", "{label: ['x']}"):
        until(lambda given=given: give(given) or "That is no answer" in text_of(page, ".said"))
        # A key that is pressed before the page has the next turn is passed over.
        until(lambda: page.keyboard.press("u") or "nothing to undo" in text_of(page, ".said"))
    assert len(job.given()) == before
    assert "None" not in [choice.get("label") for choice in job.given()]
    assert "AttributeError" not in (job.file.parent / "serve.log").read_text()


def test_text_of_a_record_turns_nothing_around_it(visit):
    page = visit("/label")
    record(page)
    shown = page.get_by_text("ab⟨U+202E⟩cd").first
    assert shown.evaluate("element => element.tagName") == "BDI"
    assert page.locator("#record-title bdi").count() == 1


def answered(page, id):
    return page.locator(".answered tbody tr").filter(has=page.get_by_text(id, exact=True)).first


def test_an_answer_that_was_written_is_changed_by_a_click_and_learned_anew(job, visit):
    page = visit("/label")
    id = record(page)
    page.keyboard.press("1")
    after = wait_for_record_after(page, id)
    until(lambda: {"written", "learned"} & {*answered(page, id).inner_text().split()})
    answered(page, id).get_by_role("button", name="Change").click()
    page.wait_for_selector(".doubt")
    assert f"Record {id} is " in text_of(page, ".doubt")
    assert record(page) == id, "what is shown is what is changed"
    assert f"{SCRIPT} {id}" in page.locator(".fields dd").all_inner_texts()
    assert page.locator(".fields img").count() == 1
    assert text_of(page, ".guess") == ""
    assert page.locator(".choice .share", has_text="%").count() == 0
    corrected = job.figure("join", "corrected") if "corrected" in job.status.document("join") else 0
    name = page.locator(".choice .name").nth(2).inner_text()
    page.locator(".choice").nth(2).click()
    until_said(page, f"Record {id} is {name} now")
    assert wait_for_record_after(page, id) == after, "the record at hand comes back"
    until(lambda: [one["label"] for one in job.given() if one["id"] == id][1:] == [name])
    until(lambda: job.status.document("join").get("corrected", 1) > corrected)


def test_the_last_answer_is_changed_by_the_keyboard_alone_or_left(visit):
    page = visit("/label", bypass_csp=True)  # axe brings styles of its own
    id = record(page)
    page.keyboard.press("2")
    at_hand = wait_for_record_after(page, id)
    until(lambda: answered(page, id).count())
    page.keyboard.press("c")
    page.wait_for_selector(".doubt")
    assert record(page) == id
    page.keyboard.press("Escape")
    page.wait_for_selector(".doubt", state="detached")
    assert record(page) == at_hand, "the record at hand comes back"
    page.keyboard.press("c")
    page.wait_for_selector(".changing")
    assert page.get_by_role("button", name="Skip").count() == 0
    page.keyboard.press("s")
    until_said(page, f"Record {id} is left as it is")
    assert wait_for_record_after(page, id) == at_hand, "what is not to be seen is not skipped"
    page.keyboard.press("c")
    page.wait_for_selector(".doubt")
    page.keyboard.press("4")
    name = page.locator(".choice .name").nth(3).inner_text()
    until_said(page, f"Record {id} is {name} now")
    page.keyboard.press("c")
    page.wait_for_selector(".doubt")
    assert_accessible(page)


@pytest.mark.parametrize("viewport", [(390, 844), (1280, 800)])
def test_what_is_changed_comes_into_view_with_its_question_which_gets_the_focus(visit, viewport):
    page = visit("/label", viewport=dict(zip(("width", "height"), viewport, strict=True)))
    id = record(page)
    page.keyboard.press("3")
    wait_for_record_after(page, id)
    until(lambda: answered(page, id).count())
    button = answered(page, id).get_by_role("button", name="Change")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".changing:focus")
    for place in (".changing", "#record-title", ".fields img"):
        box = page.locator(place).first.bounding_box()
        assert box["y"] >= 0, place
        assert box["y"] + box["height"] <= viewport[1], place
    page.keyboard.press("Escape")
    page.wait_for_selector(".changing", state="detached")
    assert button.evaluate("button => button === document.activeElement")


def test_a_annotator_cannot_change_what_somebody_else_said(visit):
    bob, ann = visit("/label", "bob"), visit("/label")
    id = record(bob)
    bob.keyboard.press("1")
    wait_for_record_after(bob, id)
    until(lambda: answered(ann, id).count() and "bob" in answered(ann, id).inner_text().split())
    assert answered(ann, id).get_by_role("button").count() == 0
    # Not by a made-up message either.
    number = ann.evaluate(
        "id => { const element = document.querySelector('.answered .scroll');"
        " const table = getElement(+element.id.slice(1));"
        " const row = table.rows.find((one) => one.id === id);"
        " table.$emit('change', {number: row.number}); return row.number }",
        id,
    )
    assert number
    ann.wait_for_selector(".doubt")
    ann.keyboard.press("2")
    until_said(ann, "was labelled by another annotator")


def test_keys_and_places_of_classes_stay_from_record_to_record(visit):
    page = visit("/label")

    def choices():
        return page.locator(".choice kbd").all_inner_texts(), page.locator(
            ".choice .name"
        ).all_inner_texts()

    id, before = record(page), choices()
    assert before[0] == [str(n) for n in range(1, len(before[0]) + 1)]
    for _ in range(3):
        # A key that is pressed before the page has the next turn is passed over.
        until(lambda id=id: page.keyboard.press("s") or record(page) != id)
        id = record(page)
        assert choices() == before


def test_features_stand_on_scales_beside_what_is_typical_and_what_is_alike(visit):
    page = visit("/label")
    record(page)
    page.wait_for_selector(".given .scale .at")
    names = page.locator(".given tbody th").all_inner_texts()
    assert names[0] == "region-centroid-col", "in the order of the schema"
    assert page.locator(".given .scale .band").count() > 10
    assert page.locator(".given .scale .mark-1").count() > 0
    assert "one line" in text_of(page, ".given .about")
    assert page.locator(".alike li").count() == 3
    assert " today · " in text_of(page, ".progress")


def test_on_a_phone_the_record_and_all_classes_are_above_the_fold(visit):
    page = visit("/label", viewport={"width": 390, "height": 844})
    record(page)
    assert page.locator(".choice").count() == 7
    for place in [page.locator("#record-title"), page.locator(".fields img")] + [
        page.locator(".choice").nth(n) for n in range(7)
    ]:
        box = place.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 844
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_where_labelling_is_blind_the_guess_is_told_after_the_answer(job, chromium):
    have_requests(job)
    file = job.file.with_name("blind.toml")
    file.write_text(PIPELINE + "[serve]\nblind = true\n")
    with process(
        job.file.parent, "serve", file.name, "--port", "0", "--annotator", "eve"
    ) as serving:
        link = serving.stdout.readline().strip().split(": ", 1)[1]
        context = chromium.new_context(reduced_motion="reduce")
        context.set_default_timeout(60_000)
        log_in(context, link)
        page = context.new_page()
        page.goto(link.partition("/login")[0] + "/label")
        id = record(page)
        assert text_of(page, ".guess") == "The prediction is shown after your answer."
        assert set(page.locator(".choice .share").all_inner_texts()) == {""}
        assert page.locator(".choice.guess, .choice .bar, .scale .mark").count() == 0
        assert "%" not in page.locator(".desk").inner_text()
        page.keyboard.press("1")
        wait_for_record_after(page, id)
        until_said(page, " The prediction is ")
        truth = job.truth[int(job.status.labelled_records(RecordFilter(), limit=1)[0]["id"])]
        page.goto(f"{link.partition('/login')[0]}/records?true={truth}")
        page.locator("#listed tbody tr").first.wait_for()
        assert page.locator("#sums").count() == 0, "it would tell of what others answered"
        assert re.match(r"[1-9]\d* labelled record", text_of(page, "#listed .summary"))
        for choice in (f"predicted={truth}", "wrong=true", f"since={10**30}", "until=9"):
            page.goto(f"{link.partition('/login')[0]}/records?true={truth}&{choice}")
            said = text_of(page, "#listed .summary")
            assert said.startswith("Labelled records: "), "a number would tell of them, too"
            assert said.endswith("Only records that you labelled are listed.")
            assert page.locator("nav.paging span").count() == 0
        kept = job.status.labelled_records(RecordFilter(), limit=1)[0]["id"]
        page.goto(f"{link.partition('/login')[0]}/record?id={kept}")
        page.locator("#nearest-labelled-records tbody tr").first.wait_for()
        predicted = page.locator("#nearest-labelled-records tbody tr :nth-child(3)")
        assert set(predicted.all_inner_texts()) == {"—"}, "others may be asked about again"
        context.close()


def open_similar(page, job):
    """Open the grid of similar records; return their ids, that of the shown record first."""
    until(lambda: job.config.state.joinpath("checkpoints").is_dir())
    id = record(page)
    page.keyboard.press("m")
    page.wait_for_selector(".similar")
    ids = [text.removeprefix("record ") for text in page.locator(".cards .whose").all_inner_texts()]
    assert ids[0] == id
    assert 2 <= len(set(ids)) == len(ids) <= 12
    return ids


def test_similar_records_get_one_class_by_the_keyboard_without_those_that_are_unchecked(job, visit):
    page = visit("/label", bypass_csp=True)
    ids = open_similar(page, job)
    assert_accessible(page)
    assert page.evaluate("document.activeElement.id") == "similar-title"
    n, name = len(ids), page.locator("#similar-class option").nth(1).inner_text()
    assert page.get_by_role("button", name=f"Label {n} records").is_disabled()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # the second record is of another class
    page.keyboard.press("1")
    page.get_by_role("button", name=f"Label {n - 1} record").wait_for()
    assert page.locator("#similar-class").evaluate("one => one.selectedOptions[0].text") == name
    assert record(page) == ids[0], "a key chooses the class, and answers nothing"
    page.keyboard.press("Enter")
    until_said(page, f"{n - 1} record{'s are' if n > 2 else ' is'} {name.partition(': ')[2]}.")
    chosen = {ids[0], *ids[2:]}
    until(lambda: chosen <= {one["id"] for one in job.given()})
    assert ids[1] not in {one["id"] for one in job.given()}
    until(lambda: job.status.labelled_record(ids[0])["labels"])
    assert job.status.labelled_record(ids[0])["propensity"] > 0, "a requested record counts as one"


def test_labels_of_similar_records_are_undone_together(job, visit):
    page = visit("/label")
    said = page.locator(".said").first

    def undone():
        """Label similar records, and undo this; None if the labels were written already."""
        ids = open_similar(page, job)
        page.keyboard.press("1")
        page.keyboard.press("Enter")
        until_said(page, f"{len(ids)} records are ")
        page.keyboard.press("u")
        until(lambda: re.search("Undone|was written already", said.inner_text()))
        return ids if "Undone" in said.inner_text() else None

    ids = until(undone)
    assert record(page) == ids[0]
    assert not set(ids) & {one["id"] for one in job.given()}


def test_the_grid_of_similar_records_is_closed_by_escape(job, visit):
    page = visit("/label")
    id = open_similar(page, job)[0]
    page.keyboard.press("Escape")
    page.wait_for_selector(".similar", state="detached")
    assert record(page) == id
    page.wait_for_selector(".choice")
