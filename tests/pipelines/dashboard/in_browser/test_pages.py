"""The pages in a real browser: what each is for, and for whom."""

import re
from urllib.parse import urlsplit

import pytest
from waiting import until

from streamboost.pipelines.dashboard.explanations import contrast_class, contrast_contributions
from tests.pipelines.dashboard.in_browser.browsing import (
    DASHBOARD,
    DRIFT,
    LABELLING,
    OPERATIONS,
    QUALITY,
    SCRIPT,
    arrived,
    by_keys,
    by_mouse,
    explained,
    in_a_browser,
    record,
    text_of,
    tile,
    until_said,
    wait_for_record_after,
)

pytestmark = in_a_browser


def test_every_part_of_the_dashboard_shows_something(visit):
    page = visit(DASHBOARD)
    for part, charts, tables in (
        (DASHBOARD, ("accuracy",), ()),
        (LABELLING, ("labels-against-budget",), ()),
        (DRIFT, (), ("class-mix",)),
        (QUALITY, ("accuracy", "committee-size"), ("confusion-matrix", "committee-history")),
        (OPERATIONS, ("throughput", "latency", "lag"), ("batch-latency-by-stage", "counters")),
    ):
        page.goto(page.url.replace(urlsplit(page.url).path + "?pipeline=segments", part))
        for chart in charts:
            page.locator(f"#{chart} canvas").wait_for()  # charts are fetched after the page
            page.locator(f"#{chart} .body details summary").click()
            page.locator(f"#{chart} tbody tr").first.wait_for()
        for table in tables:
            page.locator(f"#{table} tbody tr").first.wait_for()
        if part == QUALITY:
            table = page.locator("#metrics .scroll")
            table.wait_for()
            is_whole = "one => one.scrollHeight <= one.clientHeight"
            assert table.evaluate(is_whole), "no figure is cut off"
    letter = page.locator(".letters > li", has_text="missing_id").last
    letter.locator("summary").click()
    assert SCRIPT.replace('"', '\\"') in letter.locator("pre").inner_text()


@pytest.mark.slow
def test_a_label_given_by_a_key_is_learned_and_changes_the_committee(job, visit):
    dashboard, page = visit(DASHBOARD), visit("/label")
    until(lambda: job.figure("pipeline", "state") == "running")
    version, labels = tile(dashboard, "Version"), job.figure("learner", "labels")
    id = record(page)
    name = job.truth[int(id)]
    key = page.locator(".choice", has_text=name).get_attribute("aria-keyshortcuts")
    page.keyboard.press(key)
    assert wait_for_record_after(page, id) != id
    until_said(page, f"Record {id} is {name}")
    until(lambda: job.figure("learner", "labels") == labels + 1)
    until(lambda: tile(dashboard, "Version") != version)
    until(lambda: re.search(r"written|learned in version", text_of(page, ".answered tbody tr")))
    assert text_of(page, ".answered tbody tr").split()[-1] == "Change"
    job.feed(200)
    job.answer(job.open_ids()[:5])  # the training that these begin has the label before them
    learned = rf"{id}\s.*learned in version \d+"
    until(lambda: re.search(learned, text_of(page, ".answered tbody")))
    assert text_of(page, ".answered tbody tr").split()[:3] == [id, name, "ann"]


@pytest.mark.parametrize("follow", [by_mouse, by_keys])
@pytest.mark.slow
def test_a_cell_leads_to_its_records_and_a_record_to_what_made_it_so(answered, visit, follow):
    page = visit(QUALITY)
    # A label that was changed later is counted with its first class.
    counted = answered.status.document("confusion")
    counts = {
        (true, said): n
        for true, row in zip(counted["labels"], counted["counts"], strict=True)
        for said, n in zip(counted["labels"], row, strict=True)
    }
    one = next(one for one in explained(answered) if counts.get((one["truth"], one["label"])))
    truth, said = one["truth"], one["label"]
    head = page.get_by_role("rowheader", name=truth, exact=True)
    row = page.locator("#confusion-matrix tbody tr").filter(has=head)
    row.wait_for()
    heads = page.locator("#confusion-matrix thead th").all_inner_texts()
    follow(row.locator(":scope > *").nth(heads.index(said)).get_by_role("link"))
    arrived(page, f"**/records?*true={truth}&predicted={said}")
    assert f"{truth} that was predicted as {said}" in text_of(page, ".summary")
    follow(page.get_by_role("link", name=one["id"], exact=True))
    page.get_by_role("heading", name=f"Record {one['id']}").wait_for()
    main = page.locator("main, .content").first.inner_text()
    assert f"Predicted as {said} by version {one['version']}" in main
    who = one["labels"][-1][2] or "unknown annotator"
    wrong = f"That was wrong: {who} says it is {truth}"
    assert (f"That was right, says {who}" if truth == said else wrong) in main
    assert main.index("That was") < main.index("Requested in batch")
    (most, _), *_ = contrast_contributions(
        one["why"], said, contrast_class(one["why"], said, truth)
    )
    assert most in text_of(page, "#why .summary")
    assert page.locator("#nearest-labelled-records tbody tr").count() == 5
    assert page.locator("#class-probabilities tbody tr").count() == len(one["probabilities"])


@pytest.mark.parametrize("path", [DASHBOARD, "/label?pipeline=segments"])
@pytest.mark.quick_once
def test_pages_are_for_annotators_and_operators_and_for_nobody_else(visit, chromium, path):
    assert text_of(visit(path), ".person .who") == "ann"
    page = visit(path, "bob")
    assert text_of(page, ".person .who") == "bob, operator"
    stranger = chromium.new_context()
    assert stranger.request.get(page.url).status == 401
    stranger.close()
