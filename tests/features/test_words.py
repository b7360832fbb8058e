from zlib import crc32

import numpy as np
import pytest

from streamboost.features.words import LONGEST, hash_words


def words(*texts, places=2**32):
    hashes, counts = hash_words(texts, places)
    return dict(zip(hashes.tolist(), counts.tolist(), strict=True))


def word(text):
    return crc32(text.encode())


def pair(first, second):
    product = (word(first) * 0x9E3779B1) ^ (word(second) * 0x85EBCA6B)
    return product % 2**32


def test_words_and_pairs_of_neighbours_are_counted():
    wanted = {word("to"): 2, word("be"): 2, word("or"): 1}
    wanted |= {pair("to", "be"): 2, pair("be", "or"): 1, pair("or", "to"): 1}
    assert words("to be or to be") == wanted


def test_case_and_blanks_do_not_count_and_signs_are_words():
    assert words("Win  NOW!") == words("win now !") == words(" win\nnow\t!")
    assert word("!") in words("now!")
    assert word("£") in words("£1000")


def test_the_order_of_a_pair_counts():
    assert pair("a", "b") in words("a b")
    assert pair("b", "a") not in words("a b")


def test_scripts_without_spaces_are_read_letter_by_letter():
    assert words("東京") == {word("東"): 1, word("京"): 1, pair("東", "京"): 1}
    assert words("の한") == {word("の"): 1, word("한"): 1, pair("の", "한"): 1}


def test_several_texts_count_together_and_each_for_its_own():
    one, two = words("win", "now"), words("now", "win")
    assert {word("win"), word("now")} <= one.keys() & two.keys()
    assert len(one) == len(two) == 4
    assert len(one.keys() & two.keys()) == 2, "words of a title are not those of a body"
    assert pair("win", "now") not in one, "texts have no neighbours in each other"


def test_a_text_is_read_up_to_the_longest():
    long = "a" * 10 + " " + "b " * LONGEST
    assert words(long) == words(long[:LONGEST])
    assert word("end") not in words("b " * LONGEST + "end")


@pytest.mark.parametrize("texts", [(), ("",), (" \n",), ("", "")])
def test_nothing_has_no_words(texts):
    hashes, counts = hash_words(texts)
    assert hashes.dtype == np.int64
    assert len(hashes) == len(counts) == 0


@pytest.mark.parametrize("text", ["\ud800 lone", "a\0b", "\U0001f600", "é ü ß", "x" * 20_000])
def test_any_text_has_words(text):
    hashes, counts = hash_words([text])
    assert len(hashes)
    assert counts.dtype == np.float32


def test_words_that_share_a_place_are_counted_together_there():
    text = " ".join(f"word{i}" for i in range(50))
    hashes, counts = hash_words([text], 16)
    assert (np.diff(hashes) > 0).all()
    assert hashes.max() < 16
    assert counts.sum() == 50 + 49
