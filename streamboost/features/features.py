"""Feature encoding: converts records of mixed fields to rows of numbers, learned online."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streamboost.encoders import SentenceEncoders
from streamboost.features.category import CategoryEncoder, as_category
from streamboost.features.embedding import EmbeddingEncoder
from streamboost.features.fields import Field, as_field
from streamboost.features.layout import ColumnEncoder, ColumnLayout, Values
from streamboost.features.number import NumberEncoder
from streamboost.features.paths import path_getter
from streamboost.features.text import TextEncoder
from streamboost.features.time import TimeEncoder
from streamboost.features.vector import VectorEncoder
from streamboost.storage import Arrays, select_prefix

Label = str | int


class Features:
    """Encoder of records as rows of features, which learns from labels.

    - Numbers, booleans and vectors are copied to columns.
    - Times are converted to hours and days.
    - Categories get codes, in the order in which labelled records reach `min_frequency`.
    - Texts are converted to class log probabilities of linear models, and with a sentence encoder
      also to its vector.

    A row never depends on the record's own label, and is not changed after arrival. Columns are
    only added: with new classes, if there are texts or categories of many values.

    Parameters
    ----------
    fields
        Type of each field: "number", "category", "text", "time", or a table such as
        `{"type": "vector", "size": 384}`. A name with dots is a path into nested objects and lists.
    table_bytes
        Largest size of the tables of the text models.
    encoders
        Loader of the fields' sentence encoders. None: their paths are relative to the current
        folder.

    Attributes
    ----------
    unreadable
        Number of values of each field that had another type and were treated as missing.

    Raises
    ------
    ConfigurationError
        If the description of a field is invalid, or its sentence encoder cannot be loaded.

    Examples
    --------
    >>> features = Features({"amount": "number", "device.os": "category", "note": "text"})
    >>> records = [{"amount": "75.29", "device": {"os": "linux"}, "note": "thanks"}]
    >>> values = [features.values(record) for record in records]
    >>> features.encode_arrivals(values).tolist()
    [[75.29000091552734, 0.0]]
    >>> features.learn(values[0], "fine")
    >>> features.names
    ['amount', 'device.os', 'words for fine']
    """

    def __init__(
        self,
        fields: Mapping[Any, Field | str | Mapping[str, Any]],
        *,
        table_bytes: int = 64 * 2**20,
        encoders: SentenceEncoders | None = None,
    ) -> None:
        self.fields: dict[Hashable, Field] = {}
        self.table_bytes = table_bytes
        self.sentence_encoders = encoders or SentenceEncoders()
        self.unreadable: Counter[Hashable] = Counter()
        self._classes: dict[Label, int] = {}
        self._layout = ColumnLayout()
        self._numbers = NumberEncoder(self._layout)
        self.fixed = True
        """Whether a row depends only on the record's values, not on labels or earlier records."""
        self._texts: TextEncoder | None = None
        self._encoders: dict[str, ColumnEncoder] = {"numbers": self._numbers}
        for name, given in fields.items():
            self.add_field(name, as_field(name, given))

    def __len__(self) -> int:
        return len(self._layout)

    @property
    def names(self) -> list[str]:
        """Names of the columns of a row."""
        return self._layout.names

    @property
    def categorical_columns(self) -> list[int]:
        """Indices of the categorical columns, ascending."""
        return self._layout.categorical

    @property
    def static_columns(self) -> list[int]:
        """Indices of the columns that labels do not change: numbers, vectors and times."""
        return sorted(
            column
            for encoder in self._encoders.values()
            if encoder.is_static
            for column in encoder.columns
        )

    @property
    def classes(self) -> list[Label]:
        """Distinct labels learned, in the order of their first record."""
        return list(self._classes)

    @property
    def text_columns(self) -> list[int]:
        """Indices of the columns with the text models' log probability of each class."""
        return self._texts.columns if self._texts else []

    @property
    def vector_columns(self) -> list[list[int]]:
        """Indices of the columns of each vector field, in the order of the fields."""
        return [one.columns for one in self._encoders.values() if isinstance(one, VectorEncoder)]

    @property
    def elapsed_seconds_columns(self) -> list[int]:
        """Indices of the columns with the seconds since the preceding record."""
        return [one.columns[-1] for one in self._encoders.values() if isinstance(one, TimeEncoder)]

    def add_field(self, name: Hashable, field: Field) -> None:
        """Add a field after all other fields; earlier records lack a value for the field."""
        index = len(self.fields)
        self.fields[name] = field
        self.fixed = self.fixed and (field.kind in ("number", "vector") or not field.text)
        if field.kind == "number":
            self._numbers.add_field(name, index)
        elif field.kind == "text":
            self._add_text_field(name, index, field)
        elif field.kind == "time":
            self._add_encoder(f"{index}", TimeEncoder(self._layout, name, index, field.zone))
        elif field.kind == "category":
            self._add_encoder(
                f"{index}", CategoryEncoder(self._layout, name, index, field.min_frequency)
            )
        else:
            self._add_encoder(f"{index}", VectorEncoder(self._layout, name, index, field.size or 0))

    def _add_text_field(self, name: Hashable, index: int, field: Field) -> None:
        if field.text:
            if self._texts is None:
                self._texts = TextEncoder(self._layout, self.table_bytes)
                self._add_encoder("texts", self._texts)
            self._texts.add_field(name, index)
        if field.encoder is not None:
            encoder = EmbeddingEncoder(self._layout, name, index, field, self.sentence_encoders)
            self.fields[name] = replace(field, size=len(encoder.columns))
            self._add_encoder(f"{index}", encoder)

    def _add_encoder(self, key: str, encoder: ColumnEncoder) -> None:
        self._encoders[key] = encoder
        encoder.set_classes(self.classes)

    def values(self, record: Mapping[Any, Any]) -> Values:
        """Return the raw values of `record` in the order of the fields, None for missing values."""
        return tuple([path_getter(name)(record) for name in self.fields])

    def encode_arrivals(self, values: Sequence[Values]) -> np.ndarray:
        """Observe arriving records, given their `values`, and return their rows, float32 (n, D).

        A record may lack the values of the fields added last, which are then missing values.
        """
        values = self._append_missing_values(values)
        X = self._new_rows_of_nan(len(values))
        for encoder in self._encoders.values():
            if encoder.is_stateful:
                for i in range(len(values)):
                    self.unreadable.update(encoder.write_columns(values[i : i + 1], X[i : i + 1]))
                    encoder.observe(values[i])
            elif unreadable := encoder.write_columns(values, X):
                self.unreadable.update(unreadable)
        return X

    @property
    def caches_vectors(self) -> bool:
        """Whether a text field has a sentence encoder that caches the vectors of texts."""
        return any(encoder.caches_vectors for encoder in self._embedding_encoders())

    def cache_vectors(self, values: Sequence[Values]) -> None:
        """Encode the texts of records, given their `values`, with the encoders that cache vectors.

        May be called on another thread.
        """
        values = self._append_missing_values(values)
        for encoder in self._embedding_encoders():
            if encoder.caches_vectors:
                encoder.encode_texts(values)

    def _embedding_encoders(self) -> list[EmbeddingEncoder]:
        return [one for one in self._encoders.values() if isinstance(one, EmbeddingEncoder)]

    def observe(self, values: Values) -> None:
        """Update the encoders with an arriving record, whose row `encode` has already computed."""
        values = self._append_missing_values([values])[0]
        for encoder in self._encoders.values():
            encoder.observe(values)

    def encode(self, values: Sequence[Values]) -> np.ndarray:
        """Return the rows of records, float32 (n, D), given their `values`; change no state."""
        values = self._append_missing_values(values)
        X = self._new_rows_of_nan(len(values))
        for encoder in self._encoders.values():
            encoder.write_columns(values, X)
        return X

    def learn(self, values: Values, label: Label) -> None:
        """Update all encoders with the label of one record, given its `values`."""
        k = self._get_or_add_class_index(label)
        if self.fixed:
            return
        values = self._append_missing_values([values])[0]
        for encoder in self._encoders.values():
            encoder.learn(values, k)

    def correct_label(self, values: Values, before: Label | None, label: Label | None) -> None:
        """Replace the label `before` of a record by `label`; None means no label."""
        k = None if label is None else self._get_or_add_class_index(label)
        values = self._append_missing_values([values])[0]
        for encoder in self._encoders.values():
            encoder.correct_label(values, None if before is None else self._classes[before], k)

    def rename_or_remove_class(self, label: Label, into: Label | None) -> None:
        """Merge the class `label` into the class `into`, or remove the class if `into` is None.

        The columns of the class are kept.
        """
        if label in self._classes:
            k = None if into is None else self._get_or_add_class_index(into)
            for encoder in self._encoders.values():
                encoder.rename_or_remove_class(self._classes[label], k)

    def _get_or_add_class_index(self, label: Label) -> int:
        """Return the class index of `label`; a new class gets the next index and columns."""
        k = self._classes.get(label)
        if k is None:
            k = self._classes[label] = len(self._classes)
            for encoder in self._encoders.values():
                encoder.set_classes(self.classes)
        return k

    def categories_only(self, values: Values) -> Values | None:
        """Return `values` with None for all fields but categories, as `correct_label` needs them.

        Returns None if there are no categorical fields.
        """
        kinds = [field.kind for field in self.fields.values()]
        if "category" not in kinds:
            return None
        values = self._append_missing_values([values])[0]
        return tuple(
            as_category(value) if kind == "category" else None
            for value, kind in zip(values, kinds, strict=True)
        )

    def _append_missing_values(self, values: Sequence[Values]) -> Sequence[Values]:
        n = len(self.fields)
        if (len(values) == 1 and len(values[0]) == n) or {*map(len, values)} <= {n}:
            return values
        return [value + (None,) * (n - len(value)) for value in values]

    def _new_rows_of_nan(self, n: int) -> np.ndarray:
        X = np.empty((n, len(self._layout)), dtype=np.float32)
        X.fill(np.nan)
        return X

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the complete state for `resume`: a JSON dictionary, and arrays by name."""
        parts = {key: encoder.state() for key, encoder in self._encoders.items()}
        about = {
            "fields": [(name, field.to_config()) for name, field in self.fields.items()],
            "table_bytes": self.table_bytes,
            "classes": self.classes,
            "unreadable": list(self.unreadable.items()),
            "names": self.names,
            "categorical": self.categorical_columns,
            "makers": {key: state for key, (state, _) in parts.items()},
        }
        arrays = {
            f"{key}.{name}": array for key, (_, own) in parts.items() for name, array in own.items()
        }
        return about, arrays

    @classmethod
    def restore(
        cls, about: dict[str, Any], arrays: Arrays, encoders: SentenceEncoders | None = None
    ) -> "Features":
        """Create an encoder from the result of `state`; `encoders` as in the constructor.

        Sentence encoders are loaded on first use.
        """
        features = cls(dict(about["fields"]), table_bytes=about["table_bytes"], encoders=encoders)
        features.resume(about, arrays)
        return features

    @property
    def encoders_without_digest(self) -> list[str]:
        """Names of the sentence encoders without a digest of their files, which are functions."""
        found = [one for one in self._encoders.values() if isinstance(one, EmbeddingEncoder)]
        return sorted({one.encoder_name for one in found if one.encoder.digest is None})

    def check_encoders_unchanged(self) -> None:
        """Raise StateError if the files of a sentence encoder differ from the restored state."""
        for encoder in self._encoders.values():
            if isinstance(encoder, EmbeddingEncoder):
                encoder.check_encoder_unchanged()

    def resume(self, about: dict[str, Any], arrays: Arrays) -> None:
        """Set the state to the result of `state` of an encoder with the same fields."""
        self._classes = {label: k for k, label in enumerate(about["classes"])}
        self.unreadable = Counter(dict(about["unreadable"]))
        self._layout.names[:] = about["names"]
        self._layout.categorical[:] = about["categorical"]
        for key, encoder in self._encoders.items():
            encoder.resume(about["makers"][key], select_prefix(arrays, f"{key}."))
