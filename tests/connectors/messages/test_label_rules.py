"""Validation of labels and ids: each class has one spelling, without invisible characters."""

import json
import re

import pytest

from streamboost.connectors.messages.decoding import LONGEST_ID
from streamboost.connectors.messages.labels import most_similar_class
from streamboost.connectors.messages.schema import Schema
from streamboost.errors import ConfigurationError


@pytest.fixture
def decode(as_messages):
    """Return a function that decodes labels by a schema."""
    return lambda schema, *labels: schema.decode_labels(
        as_messages([json.dumps({"id": n, "label": label}).encode() for n, label in labels])
    )


def numbered(*labels):
    return list(enumerate(labels))


def test_a_class_written_in_several_ways_is_one_class(decode):
    ways = ["café", "cafe\u0301", " café", "café\n", "\u00a0café\u3000"]
    found, dead = decode(Schema(), *numbered(*ways))
    assert (set(found.labels), dead) == ({"café"}, [])


@pytest.mark.parametrize(
    ("label", "named"),
    [
        ("gr\u200bass", r"U\+200B \(ZERO WIDTH SPACE\), which nobody sees"),
        ("grass\u200d", r"U\+200D"),
        ("\ufeffgrass", r"U\+FEFF"),
        ("\u202egrass", r"U\+202E \(RIGHT-TO-LEFT OVERRIDE\)"),
        ("\u2066grass\u2069", r"U\+2066"),
        ("gr\u00adass", r"U\+00AD"),
        ("gra\tss", r"U\+0009 \(a control character\)"),
        ("gra\x1b[31mss", r"U\+001B"),
        ("gra\u2028ss", r"U\+2028"),
        ("gra\u3164ss", r"U\+3164"),
        ("gra\u034fss", r"U\+034F"),
        ("gr\U000e0061ss", r"U\+E0061"),
    ],
)
def test_what_nobody_sees_is_a_dead_letter_that_names_it(decode, label, named):
    found, (letter,) = decode(Schema(), (1, label), (2, "grass"))
    assert found.labels == ["grass"]
    assert letter.reason == "bad_label"
    assert re.search(named, letter.detail)


@pytest.mark.parametrize("label", ["", "  ", "\n", "\u00a0"])
def test_white_space_alone_is_no_label(decode, label):
    _, (letter,) = decode(Schema(), (1, label))
    assert letter.reason == "missing_label"


def test_whole_numbers_and_booleans_go_on_as_they_are(decode):
    assert decode(Schema(), *numbered(1, " 2 ", "3"))[0].labels == [1, 2, 3]
    assert decode(Schema(), *numbered(True, " False "))[0].labels == ["true", "false"]
    assert decode(Schema(label="integer"), (1, 7))[0].labels == [7]


@pytest.mark.parametrize(
    ("classes", "label", "given", "near"),
    [
        (["grass", "sky"], "auto", "Gras", "'grass'"),
        (["grass", "sky"], "string", "cloud", "the nearest is"),
        ([1, 2, 30], "auto", 31, "nearest"),
        ([1, 2], "integer", 3, "the nearest is"),
        (["true"], "boolean", False, "'true'"),
        (["café"], "auto", "cafe", "'café'"),
    ],
)
def test_a_label_that_is_no_class_names_the_nearest(decode, classes, label, given, near):
    schema = Schema(label=label, classes=classes)
    found, (letter,) = decode(schema, (1, given), *numbered(*classes))
    assert found.labels == list(schema.classes)
    assert letter.reason == "unknown_class"
    assert near in letter.detail
    assert "[schema] classes" in letter.detail


def test_classes_settle_what_labels_are_and_are_tidied_themselves(decode):
    schema = Schema(classes=[" cafe\u0301", "sky"])
    assert schema.classes == ("café", "sky")
    assert decode(schema, (1, "café"))[0].labels == ["café"]
    assert Schema(classes=[1, 2]).label_kind == "integer"
    assert Schema(classes=[True, False]).classes == ("true", "false")
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("classes", "named"),
    [
        (["a", " a"], "twice"),
        (["a", "b\u200b"], "U\\+200B"),
        (["a", " "], "empty"),
        ([1, "sky"], "'sky'"),
        ([1.5], "1.5"),
        ("grass", "list"),
    ],
)
def test_classes_that_can_be_none_are_refused(classes, named):
    with pytest.raises(ConfigurationError, match=named):
        Schema(classes=classes)


def test_an_id_has_at_most_so_many_characters_wherever_it_is(decode, as_messages):
    fits, long = "x" * LONGEST_ID, "x" * (LONGEST_ID + 1)
    for schema in (Schema(numeric=["a"]), Schema(fields={"a": "number"})):
        lines = [json.dumps({"id": id, "a": 1, "label": "x"}).encode() for id in (fits, long)]
        for found, dead in (
            schema.decode(as_messages(lines)),
            decode(schema, (fits, 1), (long, 1)),
        ):
            assert found.ids == [fits]
            assert [letter.reason for letter in dead] == ["bad_id"]
            assert f"{LONGEST_ID}" in dead[0].detail


def test_the_nearest_class_is_found_by_looks():
    assert most_similar_class("GRASS", ["grass", "path"], 0.6) == "grass"
    assert most_similar_class("cafe", ["café"], 0.6) == "café"
    assert most_similar_class("gr\u0430ss", ["grass"], 0.6) == "grass", "with a Cyrillic letter"
    assert most_similar_class("tree", ["grass", "path"], 0.6) is None
    assert most_similar_class("tree", [], 0.0) is None
