"""Feature hashing of text: words and pairs of neighbouring words."""

import re
from collections.abc import Sequence
from zlib import crc32

import numpy as np

# A word, a character of a script that is written without spaces, or a punctuation mark.
_WORDS = re.compile(r"[぀-ヿ㐀-鿿가-힯]|\w+|[^\w\s]")
LONGEST = 10_000
"""Largest number of characters of a text that are read."""

_FIRST, _SECOND = np.uint64(0x9E3779B1), np.uint64(0x85EBCA6B)


def hash_words(texts: Sequence[str], n_buckets: int = 2**32) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes of words and of pairs of neighbouring words in `texts`, with their counts.

    Equal words in different texts of the record have the same hash. If there are several texts,
    each word also has a second hash that depends on the text's position, as a word in a title is
    more informative. Case is ignored. Punctuation marks are words.

    Returns
    -------
    hashes : int64 (n,), ascending, distinct, below `n_buckets`, a power of 2 up to 2^32
    counts : number of words or pairs of each hash, float32 (n,)
    """
    parts: list[np.ndarray] = []
    for place, text in enumerate(texts):
        words = _WORDS.findall(text[:LONGEST].lower())
        encoded = [word.encode("utf-8", "surrogatepass") for word in words]
        single = np.array([crc32(word) for word in encoded], dtype=np.uint64)
        parts += [single, single[:-1] * _FIRST ^ single[1:] * _SECOND]
        if len(texts) > 1:
            parts.append(single * np.uint64(31) + np.uint64((place + 1) * 0xC2B2AE35))
    every = np.concatenate(parts) & np.uint64(n_buckets - 1) if parts else np.zeros(0, np.uint64)
    hashes, counts = np.unique(every.astype(np.int64), return_counts=True)
    return hashes, counts.astype(np.float32)
