"""Regressions of a class's recall since a model version, reported only if significant."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.pipelines.dashboard import versions
from streamboost.pipelines.dashboard.binomial_tests import Proportion, change_point, fisher_p_value
from streamboost.pipelines.dashboard.recall_by_version import (
    overall_recall,
    recall_change_summary,
    recall_changes,
    split_at_version,
)
from streamboost.pipelines.dashboard.versions import (
    RecallDrop,
    default_baseline_version,
    recall_since_table,
    significant_recall_drop,
)
from streamboost.pipelines.dashboard.view import EvaluationData, StatusSnapshot
from streamboost.pipelines.status.formatting import time_text
from streamboost.pipelines.status.reader import LabelledPrediction
from tests.pipelines.dashboard.test_drilldown import version
from tests.pipelines.dashboard.test_tables import texts


def said(number, truth, n, wrong, chance=0.5):
    """Return `n` records of class `truth` that a version predicted, `wrong` of them as "other"."""
    return [
        LabelledPrediction(number, truth, "other" if i < wrong else truth, chance) for i in range(n)
    ]


def test_the_class_that_got_worse_since_a_version_is_named_and_leads_to_its_mistakes():
    told = [*said(4, "a", 60, 3), *said(4, "b", 60, 5), *said(8, "a", 60, 4), *said(9, "b", 60, 35)]
    table = recall_since_table(told, 8, "p")
    assert table.summary.startswith(
        "The recall of class b dropped significantly since version 8: from 91.7 % (60 labels) to "
        "41.7 % (60 labels). b most likely got worse with version 9. Compared: 120 labels"
    )
    worst, other = table.rows
    assert texts(worst)[0] == "b"
    assert worst[3].note == "got worse: "
    assert (worst[4].text, worst[4].link) == (
        "35 of 60",
        "/records?pipeline=p&true=b&since=8&wrong=true",
    )
    assert not hasattr(other[3], "note")


def test_as_many_labels_before_a_version_are_compared_as_came_since():
    told = [*said(2, "a", 50, 50), *said(4, "a", 30, 0), *said(8, "a", 20, 0), *said(9, "a", 10, 0)]
    then, now = split_at_version(told, 8)
    assert (len(then), len(now)) == (30, 30)
    assert {one.version for one in then} == {4}


def test_a_class_that_got_worse_for_a_while_is_seen_between_two_versions():
    told = [*said(4, "a", 60, 3), *said(8, "a", 60, 35), *said(9, "a", 300, 3)]
    table = recall_since_table(told, 8, "p", last_version=8)
    assert table.summary.startswith(
        "The recall of class a dropped significantly from version 8 to 8: from"
    )
    assert "for predictions of versions 8 to 8" in table.summary
    assert table.rows[0][4].link == "/records?pipeline=p&true=a&since=8&until=8&wrong=true"
    whole = recall_since_table(told, 9, "p").summary
    assert whole.startswith("The recall of no class dropped significantly since version 9")


def test_where_chance_explains_every_fall_the_largest_is_named_all_the_same():
    some = [one for n in (4, 8) for one in (*said(n, "a", 80, n), *said(n, "b", 80, 4))]
    assert recall_since_table(some, 8, "p").summary.startswith(
        "The recall of no class dropped significantly since version 8. Largest decrease, "
        "not significant: a, -5 points (-16 to +5)."
    )


def test_where_too_few_labels_tell_that_is_said_and_not_that_no_class_got_worse():
    few = [*said(4, "a", 3, 0), *said(8, "a", 3, 1)]
    said_of = "Too few labels to decide whether the recall of a class dropped since version 8."
    assert recall_since_table(few, 8, "p").summary.startswith(said_of)
    nothing_before = said(8, "a", 50, 30)
    assert recall_since_table(nothing_before, 8, "p").summary.startswith(said_of)
    some = [*said(4, "a", 80, 8), *said(8, "a", 80, 8), *said(8, "b", 2, 2)]
    assert recall_since_table(some, 8, "p").summary.startswith(
        "The recall of no class dropped significantly since version 8. There are too few labels "
        "of b."
    )
    assert [texts(row)[1:4] for row in recall_since_table(few, 8, "p").rows] == [
        ["3 of 3", "2 of 3", "too few labels"]
    ]
    assert (
        recall_since_table([], 8, "p").summary
        == "No usable label yet for predictions of any committee."
    )
    assert recall_since_table(few, 6, "p", last_version=7).summary == (
        "No usable label yet for predictions of versions 6 to 7."
    )


def test_of_labels_worth_enough_whose_interval_is_wide_it_is_open_and_none_calls_them_few():
    """Regression test: the page said "too few labels" next to a share of 102 labels."""
    wide = [*said(4, "b", 12, 6), *said(8, "b", 12, 6)]
    sure = [*said(4, "a", 80, 8), *said(8, "a", 80, 8)]
    told = sorted([*wide, *sure], key=lambda one: one.version)
    table = recall_since_table(told, 8, "p")
    assert table.summary.startswith(
        "The recall of no class dropped significantly since version 8. Undecided for b. Compared"
    )
    assert [texts(row)[3] for row in table.rows][1] == "undecided"
    table = versions.comparison_table(version(4), version(8), wide)
    assert table.summary.startswith("Undecided whether version 8 is better or worse than 4.")
    accuracy = next(texts(row) for row in table.rows if texts(row)[0] == "Accuracy")
    assert accuracy[1].startswith("50.0 % (")
    assert accuracy[3] == "undecided"
    assert recall_since_table(wide, 8, "p").summary.startswith(
        "Undecided whether the recall of a class dropped since version 8. Compared"
    )
    few = sorted([*told, *said(4, "c", 2, 0)], key=lambda one: one.version)
    assert (
        "There are too few labels of c. Undecided for b." in recall_since_table(few, 8, "p").summary
    )


def test_nothing_is_called_worse_by_labels_worth_fewer_than_five():
    """As somebody found it: 1 of 4, which was red below a lead that said nothing can be told."""
    a, b = version(4), version(8)
    few = [*said(4, "a", 90, 0), *said(8, "a", 4, 3)]
    table = versions.comparison_table(a, b, few)
    assert table.summary == (
        "Too few labels to decide whether version 8 is better or worse than 4. Each version is "
        "evaluated on its own predictions: 90 and 4 labels."
    )
    accuracy = next(texts(row) for row in table.rows if texts(row)[0] == "Accuracy")
    assert accuracy[1:] == ["90 of 90", "1 of 4", "too few labels"], "no share invites to compare"
    changed = {texts(row)[0]: row[3] for row in table.rows}
    assert changed["Accuracy"] == changed["Recall of a"] == "too few labels"
    one_for_many = [*said(8, "a", 8, 0, chance=1.0), *said(8, "a", 1, 1, chance=0.005)]
    table = versions.comparison_table(a, b, [*said(4, "a", 90, 0), *one_for_many])
    assert {texts(row)[0]: row[3] for row in table.rows}["Accuracy"] == "too few labels"


def test_where_only_all_classes_together_got_worse_the_lead_says_so_as_their_row_does():
    told = [one for name in "abcdef" for one in (*said(4, name, 20, 1), *said(8, name, 20, 5))]
    table = versions.comparison_table(version(4), version(8), told)
    assert table.summary.startswith(
        "The accuracy over all classes dropped significantly from version 4 to 8, but no single "
        "recall did."
    )
    marked = [texts(row)[0] for row in table.rows if hasattr(row[3], "note")]
    assert marked == ["Accuracy"]


def test_it_is_said_what_labels_are_worth_that_stand_for_unlike_numbers_of_records():
    unlike = [*said(8, "a", 60, 6, chance=1.0), *said(8, "a", 8, 0, chance=0.02)]
    found = overall_recall(unlike)
    assert found.effective_size == round(460**2 / (60 + 8 * 50**2))
    assert found.text.endswith(f", n = 68, n_eff = {found.effective_size}")
    assert overall_recall(said(8, "a", 68, 6)).text.endswith(", n = 68")


def test_classes_that_got_worse_come_first_then_by_how_far_they_fell_and_the_open_ones_last():
    told = [
        *(said(4, "a", 2, 0) + said(8, "a", 2, 2)),
        *(said(4, "b", 90, 9) + said(8, "b", 90, 8)),
        *(said(4, "c", 90, 9) + said(8, "c", 90, 14)),
        *(said(4, "d", 300, 9) + said(8, "d", 300, 60)),
    ]
    told.sort(key=lambda one: one.version)
    rows = recall_since_table(told, 8, "p").rows
    assert [texts(row)[0] for row in rows] == ["d", "c", "b", "a"]
    rows = versions.comparison_table(version(4), version(8), told).rows
    assert [texts(row)[0] for row in rows][-4:] == [f"Recall of {name}" for name in "dcba"]


def test_a_record_speaks_for_all_that_had_its_chance_of_being_asked_about():
    """One in fifty of the easy ones is asked about, and each of the hard ones."""
    found = [*said(4, "a", 10, 0, chance=0.02), *said(4, "a", 100, 50, chance=1.0)]
    assert overall_recall(found).share.value == (500 + 50) / 600
    assert (overall_recall(found).n_labels, overall_recall(found).n_wrong) == (110, 50)
    assert overall_recall([]) is None


def test_of_classes_that_stay_as_they_are_hardly_any_is_ever_said_to_be_worse():
    """Although the first records are asked about at random, and later on the hard ones."""
    random, alarms, missed, runs = np.random.default_rng(3), 0, 0, 200
    for _ in range(runs):
        found, share = [], {}
        for number in (4, 8):
            doubt = random.beta(0.4, 2.2, size=(3, 300))
            density = np.sqrt(doubt * (1 - doubt)) + 0.03 if number == 8 else np.ones_like(doubt)
            chance = np.clip(0.15 * density / density.mean(), 0.01, 1.0)
            is_wrong = random.random(doubt.shape) < doubt
            for k, i in np.argwhere(random.random(doubt.shape) < chance).tolist():
                label = "other" if is_wrong[k, i] else str(k)
                found.append(LabelledPrediction(number, str(k), label, float(chance[k, i])))
            share[number] = overall_recall([one for one in found if one.version == number]).share
        then, now = split_at_version(found, 8)
        alarms += "dropped significantly since version 8: from" in recall_change_summary(
            recall_changes(then, now), "since version 8"
        )
        low, high = share[8].confidence_interval()
        missed += not low < 1 - 0.4 / 2.6 < high
    assert alarms <= 0.05 * runs
    assert missed <= 0.1 * runs


def test_two_versions_are_judged_by_what_each_predicted_itself():
    told = [*said(4, "a", 9, 0), *said(6, "a", 9, 9), *said(8, "a", 5, 5), *said(8, "b", 1, 0)]
    a, b = version(4), version(8) | {"predicted": 1_200}
    table = versions.comparison_table(a, b, told)
    rows = {texts(row)[0]: texts(row)[1:] for row in table.rows}
    assert rows["Labels at deployment"] == ["40", "80", "+40"]
    assert rows["Records predicted"][:2] == ["\u2014", "1,200"]
    assert rows["Accuracy"][0].startswith("100.0 %")
    assert rows["Accuracy"][0].endswith(", n = 9")
    assert rows["Recall of a"][1].startswith("0.0 %")
    assert rows["Recall of b"] == ["\u2014", "1 of 1", "\u2014"]
    assert table.summary.startswith(
        "The recall of class a dropped significantly from version 4 to 8: from"
    )
    assert "on its own predictions: 9 and 6 labels." in table.summary


def test_the_list_says_of_each_version_what_became_of_its_own_predictions():
    table = versions.version_table([version(4), version(8)], said(8, "a", 10, 5), [8], "p")
    assert [texts(row)[4] for row in table.rows][1] == "\u2014"
    assert texts(table.rows[0])[4].startswith("50.0 %")


def test_a_version_leads_to_itself_beside_the_one_that_was_chosen():
    some = [version(4), version(6), version(8)]
    first = lambda table: table.rows[-1][0].link  # noqa: E731
    assert first(versions.version_table(some, [], [], "p")) == "/versions?pipeline=p&a=4&b=8"
    assert (
        first(versions.version_table(some, [], [], "p", compared_version=6))
        == "/versions?pipeline=p&a=4&b=6"
    )


def test_of_more_versions_than_have_a_button_it_is_said_how_to_roll_back_to_the_others():
    some = [version(n) for n in range(1, 11)]
    said_of = [versions.version_table(some, [], range(1, n + 1), "p").summary for n in (6, 10)]
    assert said_of[0] == "6 versions can be rolled back to."
    assert "For another version, select its number." in said_of[1]


def test_when_a_class_got_worse_is_said_by_the_likeliest_place_of_the_change():
    random, found = np.random.default_rng(3), []
    for _ in range(100):
        hits = [*(random.random(60) < 0.95), *(random.random(60) < 0.45)]
        found.append(change_point(hits))
    assert sum(abs(place - 60) <= 5 for place in found) >= 85
    assert change_point([False, False, True, True]) is None, "they rose"
    assert change_point([True] * 9) is change_point([]) is None
    told = [
        LabelledPrediction(version, "a", "a" if version < 7 else "b", 0.5, 1_000 * i)
        for i, version in enumerate([4] * 30 + [5] * 30 + [7] * 30, 1)
    ]
    said_of = recall_since_table(told, 5, "p").summary
    assert f"a most likely got worse from about {time_text(61_000)} on, with version 7." in said_of
    assert "most likely" not in recall_since_table(told[:60], 5, "p").summary


def test_an_interval_of_a_difference_holds_as_often_as_it_says():
    random, held, runs = np.random.default_rng(5), 0, 500
    for _ in range(runs):
        a, b = (Proportion(random.binomial(40, p) / 40, 40) for p in (0.9, 0.7))
        low, high = b.difference_interval(a)
        held += low <= -0.2 <= high
    assert held >= 0.93 * runs


def test_that_as_many_are_special_is_as_likely_as_all_ways_to_choose_say():
    special, total = 5, 12
    for n in range(total + 1):
        drawn = [sum(i < special for i in one) for one in combinations(range(total), n)]
        for k in range(n + 1):
            share = sum(found >= k for found in drawn) / len(drawn)
            assert fisher_p_value(k, n, special, total) == pytest.approx(share)


def seen_with(told):
    return StatusSnapshot(documents={"pipeline": {"name": "p"}}, evidence=EvaluationData(told))


FELL = [*said(4, "a", 60, 3), *said(4, "b", 60, 5), *said(8, "a", 60, 4), *said(8, "b", 60, 35)]


def test_the_first_line_and_the_panel_it_leads_to_say_the_same_of_classes():
    view = seen_with(FELL)
    assert significant_recall_drop(view) == RecallDrop(8, ["b"])
    assert recall_since_table(FELL, 8, "p").summary.startswith(
        "The recall of class b dropped significantly since version 8"
    )
    assert significant_recall_drop(view) is significant_recall_drop(
        StatusSnapshot(evidence=view.evidence)
    ), "it is worked out once"
    for others in (FELL[:120], [*said(4, "a", 3, 0), *said(8, "a", 3, 3)], []):
        assert significant_recall_drop(seen_with(others)) is None


def test_the_version_since_which_classes_are_compared_stays_for_a_while_as_labels_come():
    told = [one for number in range(1, 401) for one in said(number, "a", 5, 1)]
    chosen = [default_baseline_version(told[:n]) for n in range(5, len(told) + 1, 5)]
    assert len(chosen) == 400
    assert len(set(chosen)) < 30
    assert chosen == sorted(chosen)
    for n, since_then in enumerate(chosen, 1):
        late = sum(one.version >= since_then for one in told[: 5 * n])
        assert 0.49 <= late / (5 * n) <= 0.64 or n < 5
    assert (
        default_baseline_version(told, last_version=100)
        == default_baseline_version(told[:500])
        == 50
    )


def test_the_version_chosen_has_labels_on_both_sides_where_there_are_two():
    told = [*said(1_003, "a", 5, 1), *said(1_017, "a", 9, 1), *said(1_018, "a", 2, 1)]
    assert default_baseline_version(told) in range(1_004, 1_018)
    assert default_baseline_version(said(7, "a", 3, 1)) == 7
    assert default_baseline_version([]) is None


def test_the_version_chosen_leaves_labels_to_compare_whoever_predicted_most():
    """As somebody found it: all mistaken since version 2, and no alarm."""
    told = [*said(1, "a", 60, 0), *said(2, "a", 40, 40)]
    assert default_baseline_version(told) == 2
    assert significant_recall_drop(seen_with(told)) == RecallDrop(2, ["a"])
    assert default_baseline_version([*said(1, "a", 1, 0), *told[10:60], *said(2, "a", 50, 0)]) == 2
    straggler = [
        LabelledPrediction(3, "a", "a", 0.5),
        *(LabelledPrediction(900 + i // 10, "a", "a", 0.5) for i in range(1_000)),
    ]
    assert default_baseline_version(straggler) in range(925, 951)
    few_before = [*said(1, "a", 1, 0), *said(2, "a", 60, 0), *said(3, "a", 40, 0)]
    assert default_baseline_version(few_before) == 3


@given(st.lists(st.integers(1, 60), min_size=1), st.integers(1, 60))
def test_no_other_version_would_leave_more_to_compare_or_a_quarter_is_left(numbers, shift):
    told = [LabelledPrediction(shift + number, "a", "a", 0.5) for number in numbers]

    def smaller(version):
        since = sum(one.version >= version for one in told)
        return min(since, len(told) - since)

    most = max(smaller(one.version) for one in told)
    assert smaller(default_baseline_version(told)) >= min(most, len(told) / 4)
