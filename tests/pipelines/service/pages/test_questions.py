"""What a person is told before they answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamboost.errors import DataError
from streamboost.pipelines.service.pages import questions

REQUEST = {"label": "b", "probabilities": {"a": 0.3, "b": 0.6, "c": 0.1}, "utility": 0.9}


@given(st.sets(st.text(min_size=1), max_size=30))
def test_every_class_can_be_chosen_and_no_key_stands_for_two(labels):
    chosen = questions.choices({}, sorted(labels))
    assert {one.label for one in chosen} == labels
    keys = [one.key for one in chosen if one.key]
    assert keys == [str(n) for n in range(1, min(len(labels), 9) + 1)]


def test_up_to_nine_classes_keep_their_keys_whatever_is_likely():
    other = {"label": "c", "probabilities": {"a": 0.0, "b": 0.1, "c": 0.9}}
    for request in (REQUEST, other):
        assert [one.name for one in questions.choices(request, ["c", "a", "b"])] == ["a", "b", "c"]


def test_of_more_classes_the_likeliest_have_the_keys():
    labels = list(range(12))
    request = {"label": 11, "probabilities": {str(label): label / 66 for label in labels}}
    chosen = questions.choices(request, labels)
    assert [one.label for one in chosen[:9]] == list(range(11, 2, -1))
    assert [one.label for one in chosen[9:]] == [0, 1, 2]
    assert chosen[0].guess


def test_a_rule_and_the_audit_are_told_apart():
    asked = questions.why(REQUEST | {"propensity": 1.0}, {"utility": "margin"})
    audited = questions.why(REQUEST | {"propensity": 0.01}, {"utility": "margin"})
    assert "two likeliest classes" in asked
    assert "one record in 100" in audited


def test_a_rule_that_draws_lots_tells_its_chance():
    assert "80.0 %" in questions.why(REQUEST | {"propensity": 0.8}, {"utility": "margin"})


def test_the_most_unusual_feature_comes_first():
    request = {"features": {"a": 1.0, "b": 5.0, "c": None}}
    usual = [
        {"name": "a", "mean": 1.0, "deviation": 1.0},
        {"name": "b", "mean": 1.0, "deviation": 1.0},
    ]
    table = questions.features(request, usual)
    assert [row[0] for row in table.rows] == ["b", "a", "c"]
    assert table.rows[0][2].text == "4.0 sd above"
    assert table.rows[2][1] == "missing"


def test_without_anything_to_compare_with_features_keep_the_schemas_order():
    table = questions.features({"features": {"b": 1.0, "a": 2.0}}, [])
    assert [row[0] for row in table.rows] == ["b", "a"]
    assert len(table.columns) == 2


def test_only_what_a_record_holds_is_an_image_and_only_web_addresses_are_links():
    kinds = {
        "data:image/png;base64,AAAA": "image",
        "https://example.org/a b": "text",
        "https://example.org/a.png": "link",
        "//example.org/a.png": "text",
        "/etc/passwd.png": "text",
        "data:text/html,<script>": "text",
        "vbscript:x": "text",
    }
    assert {value: questions.kind_of(value) for value in kinds} == kinds


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
    usual = [{"name": name, "mean": 1.0, "deviation": 0.5} for name in request["features"]]
    for known in ((), usual):
        rows = questions.features(request, known).rows
        assert {row[0]: row[1] for row in rows} == {
            "amount": "1.5",
            "os": "ios",
            "ok": "true",
            "gone": "missing",
            "vec": "384 numbers",
            "place": "[1, 2]",
        }


def test_a_guess_of_true_is_the_choice_called_so():
    request = {"label": True, "probabilities": {"true": 0.9, "false": 0.1}}
    (wrong, right) = questions.choices(request, ["false", "true"])
    assert (right.name, right.guess, right.share) == ("true", True, "90.0 %")
    assert not wrong.guess


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"action": "label"},
        {"action": "label", "label": None},
        {"action": "label", "label": ["left"]},
        {"action": "label", "label": 1.5},
        {"action": "explode", "label": "left"},
        {"label": "left"},
    ],
)
def test_what_is_no_answer_is_no_label(given):
    with pytest.raises(DataError, match="no answer"):
        questions.label_of(given, "string")


@pytest.mark.parametrize(
    ("given", "kind", "label"),
    [
        ("7", "integer", 7),
        ("seven", "integer", "seven"),
        ("7", "string", "7"),
        (True, "boolean", "true"),
        ("false", "boolean", "false"),
        (7, None, 7),
    ],
)
def test_a_label_is_what_the_pipeline_has(given, kind, label):
    assert questions.label_of({"action": "label", "label": given}, kind) == label


@pytest.mark.parametrize(
    ("label", "near"),
    [("Grass", "grass"), ("gras", "grass"), (" grass ", None), ("sky", None), ("cloud", None)],
)
def test_only_a_new_class_that_is_like_an_old_one_is_asked_about(label, near):
    found = questions.doubt_of({"action": "label", "label": label}, ["grass", "sky"], "string")
    assert (found and found.near) == near
    given = {"action": "label", "label": label, "sure": True}
    assert questions.doubt_of(given, ["grass", "sky"], "string") is None
    assert questions.doubt_of({"action": "label", "label": "12"}, [11, 13], "integer") is None
