"""Who labels against the others is named by all there is to go by, and nobody is by chance."""

import numpy as np

from streamboost.pipelines.service.pages.causes.annotators import annotators, checked, stand_out
from streamboost.pipelines.service.pages.view import View
from tests.pipelines.service.pages.test_tables import texts


def counts(labels, shared=0, agreed=0, judged=0, confirmed=0):
    return {
        "labels": labels,
        "shared": shared,
        "agreed": agreed,
        "judged": judged,
        "confirmed": confirmed,
    }


VISIT = {
    "demo": counts(94, 1, 0, 90, 90),
    "bob": counts(28, 0, 0, 27, 9),
    "ann": counts(24, 1, 0, 22, 22),
    "root": counts(13, 0, 0, 13, 13),
}
"""As somebody found it: bob labels at random, and one record was labelled twice."""


def shown(found):
    return annotators(View(documents={"annotators": found, "pipeline": {"name": "p"}}))


def test_who_contradicts_sure_predictions_is_named_and_not_who_was_contradicted_once():
    table = shown(VISIT)
    assert table.summary.startswith("bob labels against the others most often: alike in 9 of 27")
    assert [texts(row)[0] for row in table.rows] == ["bob", "demo", "ann", "root"]
    assert texts(table.rows[0])[1:4] == ["28", "—", "9 of 27"]
    assert texts(table.rows[1])[2:4] == ["0 of 1", "90 of 90"]
    assert table.rows[0][0].link == "/records?pipeline=p&by=bob"
    assert table.rows[0][2].link is None
    assert table.rows[1][2].link == "/records?pipeline=p&by=demo&contested=true"
    assert "ann" not in table.summary
    assert "demo" not in table.summary


def test_to_correct_somebody_who_errs_does_not_count_against_oneself():
    found = {
        "ann": counts(90, 30, 0, 60, 60),
        "bob": counts(45, 30, 0, 15, 3),
        "eve": counts(50, 0, 0, 50, 48),
    }
    known = checked(found)
    assert known["ann"].right > 85
    assert known["bob"].right < 6
    assert stand_out(known) == ["bob"]


def test_where_two_contradict_each_other_and_nothing_else_tells_neither_is_named():
    found = {"ann": counts(30, 30, 0), "bob": counts(30, 30, 0)}
    known = checked(found)
    assert known["ann"].right == known["bob"].right == 15
    assert "nobody stands out" in shown(found).summary


def test_a_few_labels_name_nobody():
    found = {"ann": counts(3, 1, 0, 2, 1), "bob": counts(40, 1, 0, 39, 39)}
    assert "nobody stands out by more than chance" in shown(found).summary
    assert "nothing tells yet" in shown({"ann": counts(3), "bob": counts(4)}).summary
    assert shown({}).summary == "No label says who gave it."
    assert "nobody stands out" in shown({"ann": counts(40, 0, 0, 40, 2)}).summary


def test_of_people_who_err_alike_hardly_anybody_is_ever_named():
    random, named = np.random.default_rng(1), 0
    for _ in range(300):
        found = {
            f"person {i}": counts(60, 0, 0, 40, int(random.binomial(40, 0.9))) for i in range(12)
        }
        named += bool(stand_out(checked(found)))
    assert named <= 0.05 * 300


def test_all_who_stand_out_are_named():
    found = VISIT | {"eve": counts(40, 0, 0, 40, 10)}
    assert "So does bob." in shown(found).summary
