"""A request on the labelling page, before the answer: classes, keys and the suggested label."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nicegui import Client, ui

from streamboost.errors import DataError
from streamboost.pipelines.dashboard.labelling_request import (
    ACTIONS,
    EXCERPT,
    FOLDED,
    KEYS,
    RequestPanel,
    assign_keys,
    chosen_label,
    field_kind,
    find_similar_class,
    record_preview,
    request_reason,
)
from streamboost.pipelines.dashboard.labelling_request import class_choices as all_choices


def choices(request, known, **options):
    keys = {}
    assign_keys(keys, known)
    return all_choices(request, known, keys, **options)


REQUEST = {"label": "b", "probabilities": {"a": 0.3, "b": 0.6, "c": 0.1}, "utility": 0.9}


@given(st.sets(st.text(min_size=1), max_size=30))
def test_every_class_can_be_chosen_and_no_key_stands_for_two(labels):
    chosen = choices({}, sorted(labels))
    assert {one.label for one in chosen} == labels
    keys = [one.key for one in chosen if one.key]
    assert len(keys) == len(set(keys)) == min(len(labels), len(KEYS))
    assert not set(keys) & set(ACTIONS)


def test_keys_are_digits_and_then_letters_that_do_nothing_else():
    keys = [one.key for one in choices({}, [f"class {n:02}" for n in range(12)])]
    assert keys == [*"123456789", "a", "b", "d"]


def test_classes_of_one_character_are_their_own_keys():
    assert [one.key for one in choices({}, list("0123456789"))] == list("0123456789")
    assert [one.key for one in choices({}, [0, 1, 2])] == ["0", "1", "2"]
    assert [one.key for one in choices({}, ["a", "n"])] == ["1", "2"], "n says not sure"
    assert len({one.key for one in choices({}, ["a", "A"])}) == 2


@given(st.lists(st.sets(st.text("abc01", min_size=1, max_size=2)), max_size=5))
@pytest.mark.slow
def test_a_key_stays_whatever_classes_come(rounds):
    keys = {}
    for known in rounds:
        before = dict(keys)
        assign_keys(keys, sorted(known))
        assert before.items() <= keys.items()
        assert list(keys)[: len(before)] == list(before), "and so does its place"
        assert len(set(keys.values())) == len(keys)


def test_where_labelling_is_blind_nothing_tells_the_guess():
    for one in choices(REQUEST, ["a", "b"], blind=True):
        assert (one.share, one.part, one.guess) == (None, 0.0, False)


def test_classes_keep_their_places_whatever_is_likely():
    other = {"label": "c", "probabilities": {"a": 0.0, "b": 0.1, "c": 0.9}}
    for request in (REQUEST, other):
        assert [one.name for one in choices(request, ["a", "b", "c"])] == ["a", "b", "c"]


def test_of_more_classes_than_keys_the_likeliest_without_one_come_first():
    labels = list(range(100, 100 + len(KEYS) + 3))
    request = {"label": labels[-1], "probabilities": {str(label): label / 1e5 for label in labels}}
    chosen = choices(request, labels)
    assert [one.label for one in chosen[: len(KEYS)]] == labels[: len(KEYS)]
    assert [one.label for one in chosen[len(KEYS) :]] == labels[:-4:-1]
    assert [one.key for one in chosen[-3:]] == [None] * 3
    assert [one.guess for one in chosen].index(True) == len(KEYS)


def test_a_rule_and_the_audit_are_told_apart():
    asked = request_reason(REQUEST | {"propensity": 1.0}, {"strategy": "margin"})
    audited = request_reason(REQUEST | {"propensity": 0.01}, {"strategy": "margin"})
    assert "two likeliest classes" in asked
    assert "1 in 100 records" in audited


def test_a_rule_that_draws_lots_tells_its_chance():
    assert "80.0 %" in request_reason(REQUEST | {"propensity": 0.8}, {"strategy": "margin"})


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
    assert {value: field_kind(value) for value in kinds} == kinds


def test_a_guess_of_true_is_the_choice_called_so():
    request = {"label": True, "probabilities": {"true": 0.9, "false": 0.1}}
    (wrong, right) = choices(request, ["false", "true"])
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
        chosen_label(given, "string")


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
    assert chosen_label({"action": "label", "label": given}, kind) == label


@pytest.mark.parametrize(
    ("label", "near"),
    [("Grass", "grass"), ("gras", "grass"), (" grass ", None), ("sky", None), ("cloud", None)],
)
def test_only_a_new_class_that_is_like_an_old_one_is_asked_about(label, near):
    found = find_similar_class({"action": "label", "label": label}, ["grass", "sky"], "string")
    assert (found and found.near) == near
    given = {"action": "label", "label": label, "sure": True}
    assert find_similar_class(given, ["grass", "sky"], "string") is None
    assert find_similar_class({"action": "label", "label": "12"}, [11, 13], "integer") is None


def shown_fields(features):
    """Return the visible and the folded texts of a record's fields, in the order of the page."""
    with Client(ui.page("/")) as client:
        RequestPanel(blind=False).show({"id": "1", "features": features}, {}, None)
        parts = [one for one in client.elements.values() if one.tag == "dd"]
        return [[text.text for text in part.descendants() if text.tag == "bdi"] for part in parts]


def test_images_and_texts_come_first_and_hashes_last():
    digest, note, image = "a4f0" * 16, "where is my parcel", "data:image/png;base64,iVBORw0KGgo="
    page = "https://example.org/orders/7"
    features = {"hash": digest, "page": page, "city": "New York", "note": note, "photo": image}
    assert shown_fields(features) == [[], [note], [page], [digest]]


def test_a_long_text_is_folded_between_two_words_and_is_whole():
    text = "parcel number " * FOLDED
    ((visible, rest),) = shown_fields({"note": text.strip()})
    assert FOLDED - len("number") <= len(visible) <= FOLDED
    assert f"{visible} {rest}" == text.strip()


def test_the_preview_of_a_similar_record_is_its_longest_text_and_its_image():
    record = {"features": {"subject": "a late parcel", "body": "where is it " * 50, "os": "ios"}}
    found = record_preview(record)["text"]
    assert found.startswith("where is it where")
    assert found.endswith(" …")
    assert len(found) <= EXCERPT
    assert record_preview({"features": {"os": "ios", "n": 3}}) == record_preview({}) == {}
    image = "data:image/png;base64,iVBORw0KGgo="
    assert record_preview({"fields": {"photo": image}}) == {"picture": image}
