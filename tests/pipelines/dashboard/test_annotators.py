"""Annotator disagreement: only a statistically significant disagreement names an annotator."""

import numpy as np

from streamboost.pipelines.dashboard.annotators import (
    DisagreementCounts,
    annotator_table,
    find_outlier_annotators,
)
from streamboost.pipelines.dashboard.view import StatusSnapshot
from tests.pipelines.dashboard.test_tables import texts


def counts(labels, compared=0, against=0, together=0, outvoted=0):
    return {
        "labels": labels,
        "compared": compared,
        "against": against,
        "together": together,
        "outvoted": outvoted,
    }


VISIT = {
    "demo": counts(94, 90, 0, 1, 0),
    "bob": counts(28, 27, 18),
    "ann": counts(24, 22, 0, 1, 0),
    "root": counts(13, 13, 0),
}
"""As somebody found it: bob labels at random, and one record was labelled twice."""


def shown(found):
    return annotator_table(
        StatusSnapshot(documents={"annotators": found, "pipeline": {"name": "p"}})
    )


def test_who_labels_against_the_others_is_first_and_not_who_was_contradicted_once():
    table = shown(VISIT)
    assert table.summary.startswith(
        "bob disagrees significantly often: 18 of 27 compared labels, 66.7 %; all other annotators "
        "0.0 %. 4 sources"
    )
    assert [texts(row)[0] for row in table.rows] == ["bob", "ann", "demo", "root"]
    assert texts(table.rows[0]) == ["bob", "28", "18 of 27: 48 to 81 %", "\u2014"]
    assert texts(table.rows[2])[2:] == ["0 of 90: 0 to 4 %", "0"]
    assert [row[2].colour for row in table.rows] == ["bad", *["series-1"] * 3]
    assert table.rows[0][0].link == "/records?pipeline=p&by=bob"
    assert table.rows[0][2].link == "/records?pipeline=p&by=bob&wrong=true&confident=true"
    assert table.rows[1][2].link is None, "there is no disagreement"
    shared = shown({"eve": counts(30, 20, 9, 15, 9)}).rows[0]
    assert shared[2].link == "/records?pipeline=p&by=eve&contested=true"


def test_who_was_asked_only_about_labels_that_look_wrong_is_not_accused():
    found = VISIT | {"zoe": counts(9, 0, 0, 9, 2)}
    table = shown(found)
    row = next(row for row in table.rows if texts(row)[0] == "zoe")
    assert texts(row)[2:] == ["\u2014", "2"]
    assert "zoe" not in table.summary


def test_a_few_labels_name_nobody():
    found = {"ann": counts(3, 2, 2), "bob": counts(40, 39, 0)}
    assert "no annotator disagrees significantly often" in shown(found).summary
    assert "no labels could be compared yet" in shown({"ann": counts(3), "bob": counts(4)}).summary
    assert shown({}).summary == "No label names its annotator."
    assert "no annotator disagrees" in shown({"ann": counts(40, 40, 38)}).summary
    of_an_older_run = {"ann": {"labels": 40, "shared": 3, "agreed": 0}}
    assert "no labels could be compared yet" in shown(of_an_older_run).summary


def test_of_people_who_err_alike_hardly_anybody_is_ever_named():
    random, named = np.random.default_rng(1), 0
    for _ in range(300):
        against = random.binomial(40, 0.1, size=12).tolist()
        named += bool(
            find_outlier_annotators(
                {f"person {i}": DisagreementCounts(n, 40) for i, n in enumerate(against)}
            )
        )
    assert named <= 0.05 * 300


def test_all_who_stand_out_are_named():
    found = VISIT | {"eve": counts(40, 40, 20)}
    assert "So does eve." in shown(found).summary
