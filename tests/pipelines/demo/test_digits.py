"""Handwritten digits for the demo, labelled from their pictures."""

import base64
import io

import numpy as np
import pytest

from streamboost.pipelines.demo.digits import PICTURE, PIXELS, load_digit_records, picture_url


@pytest.fixture(scope="module")
def found():
    return load_digit_records()


@pytest.mark.slow
def test_every_digit_has_its_pixels_its_picture_and_what_it_is(found):
    records, truth = found
    assert len(records) == len(truth) == 1_797
    assert set(truth) == set("0123456789")
    assert all(record.keys() == {*PIXELS, PICTURE} for record in records)
    assert {value for record in records for name in PIXELS for value in [record[name]]} == {
        *range(17)
    }


def test_a_picture_is_dark_where_the_ink_is():
    image = pytest.importorskip("PIL.Image", reason="something else must read the picture")
    ink = np.zeros((8, 8))
    ink[:4, 4:] = 16
    url = picture_url(ink)
    png = base64.b64decode(url.removeprefix("data:image/png;base64,"))
    shown = np.asarray(image.open(io.BytesIO(png)).convert("L"))
    assert shown.shape == (64, 64)
    assert shown[5:20, 44:60].max() < 20
    assert shown[44:60, 5:20].min() > 235
