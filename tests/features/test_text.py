"""Text features: log probabilities of classes from a record's words, in tables of bounded size."""

import math

import numpy as np
import pytest

from streamboost.features import Features
from tests.features.making import STRANGE, assert_same_state, single
from tests.features.naive import NaiveTexts

RNG = np.random.default_rng(8)
TOPICS = {
    "sports": ["goal", "match", "team", "coach", "season", "win", "final", "score"],
    "trade": ["market", "stock", "price", "bank", "deal", "share", "profit", "win"],
    "science": ["cell", "star", "model", "data", "lab", "theory", "energy", "score"],
}


def written(topic, n=6):
    own = RNG.choice(TOPICS[topic], n).tolist()
    return " ".join(RNG.permutation([*own, *RNG.choice(["the", "a", "of", "!"], 3)]))


def stream(n):
    """Return texts of three topics, the third of which comes up in the middle."""
    topics = RNG.choice(["sports", "trade"], n // 2).tolist()
    topics += RNG.choice(list(TOPICS), n - n // 2).tolist()
    return [(written(topic, 2), written(topic)) for topic in topics], topics


@pytest.mark.parametrize("fields", [1, 2])
def test_the_fast_model_says_what_a_naive_one_says(fields):
    features = Features(dict.fromkeys(("title", "body")[:fields], "text"))
    naive = NaiveTexts()
    for texts, topic in zip(*stream(120), strict=True):
        texts = texts[:fields]
        row = features.encode_arrivals([texts])[0]
        if naive.classes:
            np.testing.assert_allclose(
                row[features.text_columns], naive.row(texts), atol=1e-6, rtol=1e-5
            )
        naive.note(texts)
        if RNG.random() < 0.8:
            features.learn(texts, topic)
            naive.learn(texts, topic)
    assert features.classes == naive.classes
    assert len(naive.classes) == 3
    assert max(naive.mix) > 0.6, "the weights have moved"


def test_log_probabilities_are_normalized():
    features = Features({"title": "text", "body": "text"})
    texts, topics = stream(60)
    for text, topic in zip(texts, topics, strict=True):
        features.learn(text, topic)
    for text in [*texts, ("", ""), (None, None), ("never met", "Wörter")]:
        chances = np.exp(features.encode([text])[0])
        assert chances.sum() == pytest.approx(1, abs=1e-5)


def test_texts_tell_labels_apart():
    features = Features({"body": "text"})
    for _ in range(60):
        for topic in TOPICS:
            features.learn((written(topic),), topic)
    for topic in TOPICS:
        row = features.encode([(written(topic, 8),)])[0]
        assert features.classes[int(row[features.text_columns].argmax())] == topic


def test_columns_join_with_the_classes_behind_those_there_are():
    features = Features({"body": "text", "n": "number"})
    assert features.names == ["n"]
    features.learn(("win", 1), "a")
    features.learn(("lose", 1), "b")
    assert features.names == ["n", "words for a", "words for b"]
    before = features.encode([("win", 1)])
    features.learn(("draw", 1), "c")
    assert features.names[3:] == ["words for c"]
    assert before.shape == (1, 3)
    assert features.text_columns == [1, 2, 3]


@pytest.mark.slow
def test_no_more_than_256_classes_are_told_apart():
    features = single("text")
    for k in range(260):
        features.learn((f"word{k}",), f"class {k}")
    assert len(features.text_columns) == len(features.names) == 256
    assert len(features.classes) == 260
    before = features.state()[1]["texts.words"].sum()
    features.learn(("word3",), "class 259")
    assert features.state()[1]["texts.words"].sum() == before


@pytest.mark.parametrize("most", [0, 100_000, 2**20, 16 * 2**20])
@pytest.mark.quick_once
def test_tables_take_no_more_than_they_may_and_still_tell_labels_apart(most):
    features = Features({"body": "text"}, table_bytes=most)
    right = n = 0
    for i in range(900):
        k = i % 40
        text = f"topic{k} of thing{k % 7} said who{i % 11}"
        row = features.encode_arrivals([(text,)])[0]
        if i > 500:
            n += 1
            right += features.classes[int(row[features.text_columns].argmax())] == f"class {k}"
        features.learn((text,), f"class {k}")
    tables = features._texts
    taken = sum(
        getattr(tables, f"_{name}").nbytes for name in ("words", "weights", "squares", "frequency")
    )
    # The least there may be: 256 places of 256 classes.
    assert taken <= max(most, 256 * (256 * 12 + 4))
    assert right / n > (0.95 if most > 10**6 else 0.5)


def test_a_table_too_small_from_the_first_is_so_before_there_are_labels():
    features = Features({"body": "text"}, table_bytes=500_000)
    assert features._texts._table_size_in_bytes <= 500_000


def test_folded_tables_go_on_from_their_state():
    features = Features({"body": "text"}, table_bytes=500_000)
    for i in range(60):
        features.encode_arrivals([(f"word{i} and more",)])
        features.learn((f"word{i} and more",), f"class {i % 20}")
    twin = Features.restore(*features.state())
    assert_same_state(twin, features)
    for one in (features, twin):
        for i in range(60, 120):
            one.encode_arrivals([(f"word{i} and more",)])
            one.learn((f"word{i} and more",), f"class {i % 37}")
    assert_same_state(twin, features)


def test_the_words_of_a_record_count_from_the_next_on():
    features = single("text")
    features.learn(("win",), "a")
    features.learn(("lose",), "b")
    for text in ("win now", "lose", "never met"):
        np.testing.assert_array_equal(
            features.encode([(text,)]), features.encode_arrivals([(text,)])
        )


@pytest.mark.parametrize("value", STRANGE.values(), ids=STRANGE)
def test_whatever_stands_there_is_read_or_counted_and_can_be_learned(value):
    features = single("text")
    features.learn(("win",), "a")
    features.learn((value,), "b")
    row = features.encode_arrivals([(value,)])[0]
    assert np.exp(row).sum() == pytest.approx(1, abs=1e-5)
    is_none = isinstance(value, float) and math.isnan(value)
    assert features.unreadable["a"] == (not (isinstance(value, str) or is_none))
