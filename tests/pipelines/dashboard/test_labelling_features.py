"""A record's features on the labelling page."""

import pytest

from streamboost.pipelines.dashboard.labelling_request import WIDTH, request_feature_table


def of(name, median=1.0, deviation=1.0):
    quartiles = {"lower": median - deviation / 2, "upper": median + deviation / 2}
    return {"name": name, "median": median, "mean": 9.0, "deviation": deviation} | quartiles


TYPICAL = {"classes": ["x", "y", "z"], "names": ["a"], "medians": [[3.0], [None], [-99.0]]}
CHANCES = {"x": 0.5, "y": 0.1, "z": 0.4}


def test_features_keep_the_schemas_order_however_unusual_one_is():
    request = {"features": {"b": 1.0, "a": 5.0, "c": None}}
    for usual in ([], [of("a"), of("b"), of("c")]):
        assert [row[0] for row in request_feature_table(request, usual, {}).rows] == ["b", "a", "c"]


def test_a_value_stands_on_a_scale_around_the_usual_with_the_middle_half():
    usual = [of(name) for name in "abcd"]
    request = {"features": {"a": 1.0, "b": 3.0, "c": -99.0, "d": None}}
    at = 0.5 / WIDTH
    same, above, below, missing = [row[2] for row in request_feature_table(request, usual, {}).rows]
    assert (same.text, same.scale.at) == ("at the median", 0.5)
    assert (same.scale.low, same.scale.high) == pytest.approx((0.5 - at / 2, 0.5 + at / 2))
    assert (above.text, above.scale.at, above.colour) == ("2.0 sd above", 0.5 + 2 * at, "series-1")
    assert (below.text, below.scale.at, below.colour) == ("100.0 sd below", 0.0, "warn")
    assert (missing.scale.at, missing.scale.low) == (None, same.scale.low)


def test_what_is_typical_of_the_two_likeliest_classes_is_marked():
    request = {"features": {"a": 1.0, "b": 1.0}, "probabilities": CHANCES}
    table = request_feature_table(request, [of("a"), of("b")], TYPICAL)
    first, second = [row[2] for row in table.rows]
    assert first.scale.marks == pytest.approx([0.5 + 1.0 / WIDTH, 0.0])
    assert first.note == "median 1; median of x: 3; median of z: -99"
    assert second.scale.marks == [None, None], "nothing is known of it"
    assert table.summary.endswith("one line for x, two for z.")


@pytest.mark.parametrize("typical", [{}, {"classes": [], "names": [], "medians": []}])
def test_where_nothing_is_typical_yet_nothing_is_marked(typical):
    request = {"features": {"a": 1.0}, "probabilities": CHANCES}
    table = request_feature_table(request, [of("a")], typical)
    assert table.rows[0][2].scale.marks == []
    assert "typical" not in table.summary


def test_where_labelling_is_blind_no_class_is_marked():
    request = {"features": {"a": 1.0}, "probabilities": CHANCES}
    table = request_feature_table(request, [of("a")], TYPICAL, blind=True)
    assert table.rows[0][2].scale.marks == []


def test_without_anything_to_compare_with_there_is_no_scale():
    constant = of("a") | {"deviation": 0.0}
    for usual in ([], [constant], [of("elsewhere")]):
        assert len(request_feature_table({"features": {"a": 1.0}}, usual, {}).columns) == 2


def test_features_of_any_kind_are_shown_and_long_texts_are_left_to_the_fields():
    request = {
        "features": {
            "amount": 1.5,
            "os": "ios",
            "ok": True,
            "gone": None,
            "vec": [0.5] * 384,
            "place": [1, 2],
            "note": "a long story " * 10,
        }
    }
    usual = [of(name) for name in request["features"]]
    for known in ((), usual):
        rows = request_feature_table(request, known, {}).rows
        assert {row[0]: row[1] for row in rows} == {
            "amount": "1.5",
            "os": "ios",
            "ok": "true",
            "gone": "missing",
            "vec": "384 numbers",
            "place": "[1, 2]",
        }
