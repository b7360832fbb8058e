"""Records of handwritten digits, each with a picture, so that people can label them.

The source is scikit-learn's copy of the test part of Alpaydin and Kaynak's "Optical Recognition of
Handwritten Digits" (UCI, 1998): 1,797 of them, 8 by 8 pixels with 16 shades of ink.
"""

import base64
import struct
import zlib
from typing import Any

import numpy as np

PICTURE = "picture"
"""Name of the field with the picture for annotators."""

PIXELS = [f"r{row}c{column}" for row in range(1, 9) for column in range(1, 9)]
"""Names of the features: ink by row and column, from the top left."""

SHADES = 16
ENLARGED = 8
"""Zoom factor of the picture, with spline interpolation."""


def load_digit_records() -> tuple[list[dict[str, Any]], list[str]]:
    """Return the records of scikit-learn's digits, as dicts without ids, and their labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    records = [
        dict(zip(PIXELS, ink.astype(int).ravel().tolist(), strict=True))
        | {PICTURE: picture_url(ink)}
        for ink in found.images
    ]
    return records, [str(digit) for digit in found.target]


def picture_url(ink: np.ndarray) -> str:
    """Return the ink values (height, width), 0 to 16, as a ``data:`` URL of a PNG image.

    The image is greyscale of 4 bits (ISO/IEC 15948), dark on white, and enlarged.
    """
    from scipy.ndimage import zoom

    enlarged = zoom(ink, ENLARGED, order=3, mode="nearest")
    grey = (SHADES - 1 - np.clip(enlarged * (SHADES - 1) / SHADES, 0, SHADES - 1)).round()
    nibbles = grey.astype(np.uint8)
    height, width = nibbles.shape
    packed = nibbles[:, ::2] << 4 | nibbles[:, 1::2]
    # Each line of a PNG starts with its filter type: 0, none.
    lines = np.hstack([np.zeros((height, 1), dtype=np.uint8), packed])
    header = struct.pack(">IIBBBBB", width, height, 4, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(_encode_png_chunk(kind, data) for kind, data in parts)
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _encode_png_chunk(chunk_type: bytes, data: bytes) -> bytes:
    return (
        struct.pack(">I", len(data))
        + chunk_type
        + data
        + struct.pack(">I", zlib.crc32(chunk_type + data))
    )
