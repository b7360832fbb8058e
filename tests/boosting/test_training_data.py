"""Encoding of labels as class indices."""

import numpy as np
import pytest

from streamboost.boosting.training_data import encode_labels

NAMES = ["b", "a", "ä", "", "B", "a", "\U0001f600", "b", "a b", "10", "9"]


@pytest.mark.parametrize("kind", [object, str])
def test_text_is_encoded_as_numpy_sorts_it(kind):
    y = np.array(NAMES, dtype=kind)
    found, places = np.unique(y, return_inverse=True)
    classes, codes = encode_labels(y, None)
    assert classes.tolist() == found.tolist()
    assert (classes.dtype, codes.dtype) == (y.dtype, np.uint32)
    assert codes.tolist() == places.tolist()
    classes, codes = encode_labels(y, np.array(["z", "b"], dtype=kind))
    assert classes.tolist() == ["z", "b", *(name for name in found.tolist() if name != "b")]
    assert classes[codes].tolist() == NAMES


@pytest.mark.parametrize("known", [None, np.array([7, 3])])
def test_numbers_are_encoded_and_no_labels_are_none(known):
    classes, codes = encode_labels(np.array([5, 3, 5]), known)
    assert classes[codes].tolist() == [5, 3, 5]
    assert len(encode_labels(np.array([], dtype=np.int64), None)[1]) == 0


def test_text_and_numbers_do_not_mix():
    with pytest.raises(TypeError):
        encode_labels(np.array(["a", 1], dtype=object), None)
