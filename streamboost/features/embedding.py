"""Embedding encoder: the vectors of a text field, computed by a sentence encoder."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from streamboost.encoders import SentenceEncoder, SentenceEncoders
from streamboost.errors import ConfigurationError, StateError
from streamboost.features.fields import Field
from streamboost.features.layout import ColumnLayout, Values, is_missing
from streamboost.features.vector import VectorEncoder
from streamboost.features.words import LONGEST
from streamboost.storage import Arrays


class EmbeddingEncoder(VectorEncoder):
    """Encoder of a text field, with one column for each number of its sentence encoder's vector.

    The first 10,000 characters of a text are encoded. Of a missing text, all columns are NaN.

    Parameters
    ----------
    layout
        Columns of all fields, to which this encoder's columns are appended.
    name, value_index
        Name of the field, and index of its value in a record's values.
    field
        The field, with an encoder. If its size is None, the sentence encoder is loaded at once,
        otherwise when it is first used.
    encoders
        Loader of the sentence encoder.

    Raises
    ------
    ConfigurationError
        If the sentence encoder cannot be loaded, or its vectors do not have the field's size.
    """

    def __init__(
        self,
        layout: ColumnLayout,
        name: Hashable,
        value_index: int,
        field: Field,
        encoders: SentenceEncoders,
    ) -> None:
        assert field.encoder is not None
        self._field_name = name
        self.encoder_name = field.encoder
        self._encoders = encoders
        self._loaded: SentenceEncoder | None = None
        self._counts_unreadable = not field.text  # otherwise the text encoder counts
        self._saved_digest: str | None = None
        size = field.size
        if size is None:
            self._loaded = self._load_encoder()
            size = self._loaded.size
        super().__init__(layout, name, value_index, size)

    @property
    def encoder(self) -> SentenceEncoder:
        """The sentence encoder, which is loaded on first use."""
        if self._loaded is None:
            found = self._load_encoder()
            if found.size != len(self.columns):
                raise ConfigurationError(
                    f"field {self._field_name!r}: encoder {self.encoder_name!r} gives vectors of "
                    f"{found.size} numbers, and {len(self.columns)} are expected: give the encoder "
                    "that was used before, or start with an empty state"
                )
            self._loaded = found
        return self._loaded

    def _load_encoder(self) -> SentenceEncoder:
        try:
            return self._encoders.load(self.encoder_name)
        except ConfigurationError as error:
            raise ConfigurationError(f"field {self._field_name!r}: {error}") from error

    def write_columns(self, values: Sequence[Values], X: np.ndarray) -> Counter[Hashable]:
        """Write the vectors of n records' texts into `X` (n, D), which is NaN before.

        Returns a mapping from field to its number of unreadable values: texts whose vector is not
        finite, and values that are not text (unless a text encoder of the field counts these).

        Raises
        ------
        ConfigurationError
            If the sentence encoder fails.
        """
        rows, vectors = self.encode_texts(values)
        given = [value[self._value_index] for value in values]
        n_unreadable = 0
        if self._counts_unreadable:
            n_unreadable = sum(not is_missing(one) and not isinstance(one, str) for one in given)
        if rows:
            X[np.ix_(rows, self.columns)] = vectors
            n_unreadable += int(np.isnan(vectors[:, 0]).sum())
        return Counter({self._field_name: n_unreadable}) if n_unreadable else Counter()

    @property
    def caches_vectors(self) -> bool:
        """Whether the sentence encoder caches the vectors of texts."""
        return self.encoder.caches_vectors

    def encode_texts(self, values: Sequence[Values]) -> tuple[list[int], np.ndarray]:
        """Return the indices of the m records with a text, and its vectors, float32 (m, size).

        Raises
        ------
        ConfigurationError
            If the sentence encoder fails.
        """
        given = [value[self._value_index] for value in values]
        rows = [i for i, one in enumerate(given) if isinstance(one, str) and not is_missing(one)]
        # A lone surrogate, which JSON allows, is not valid in UTF-8.
        texts = [given[i][:LONGEST].encode("utf-8", "replace").decode() for i in rows]
        if not texts:
            return rows, np.empty((0, len(self.columns)), dtype=np.float32)
        try:
            return rows, self.encoder.encode(texts)
        except ConfigurationError as error:
            if str(error).startswith("field "):
                raise
            raise ConfigurationError(f"field {self._field_name!r}: {error}") from error

    def check_encoder_unchanged(self) -> None:
        """Raise StateError if the encoder's files are not those of the restored state."""
        if self._saved_digest not in (None, self.encoder.digest):
            raise StateError(
                f"field {self._field_name!r}: the files of encoder {self.encoder_name!r} have the "
                f"SHA-256 {self.encoder.digest}, and the state was made with {self._saved_digest}: "
                "put those files back"
            )

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the column indices and the SHA-256 of the sentence encoder's files; no arrays."""
        return {"columns": self.columns, "digest": self.encoder.digest}, {}

    def resume(self, state: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to one that the method `state` returned."""
        super().resume(state, arrays)
        self._saved_digest = state["digest"]
