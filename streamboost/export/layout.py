"""Layout of a committee's columns: encodes records as the rows that an exported file scores."""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from streamboost.encoders import SentenceEncoders
from streamboost.errors import ConfigurationError, DataError, ModelFileError
from streamboost.export.lightgbm_text import read_metadata
from streamboost.features import Features
from streamboost.features.paths import make_values_reader, path_getter
from streamboost.storage import Arrays, decode_sealed_file, encode_sealed_file

LAYOUT = "streamboost.layout"
"""Metadata key of an exported file; the value is the layout as JSON."""

TABLES = "streamboost.tables"
"""Metadata key of an exported file; the value is the layout's arrays as a sealed file, compressed
with zlib and encoded in base64."""

_FORMAT = 1
"""Version of the layout's JSON; no other version is read."""

_KIND = "layout"


@dataclass(frozen=True, slots=True, eq=False)
class RecordLayout:
    """Columns of an exported committee, and the encoder of records as rows of these columns.

    Either `features` or `numbers` is given.

    Parameters
    ----------
    n_features
        D, the number of columns that the committee reads.
    features
        Encoder of mixed fields, in the state at the export: with the category codes and text models
        learned until then. Its first D columns are those of the committee.
    numbers
        Names of the number fields, if all fields are numbers.
    hidden
        Paths of the fields that are no features, such as the id and the label.
    about
        Further JSON values about the exported committee: "notice", "classes", "version", "link",
        "temperature", "columns", "accuracy" and "decision".
    """

    n_features: int
    features: Features | None = None
    numbers: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)

    def encode(self, records: Sequence[Mapping[str, Any]]) -> np.ndarray:
        """Return the rows of `records`, float32 (n, D), NaN where a value is missing.

        Records are decoded JSON objects in the order of their arrival. If a field is a time, one
        column has the seconds since the preceding record, which may be of an earlier call. All
        other columns depend on the record only. Fields that the committee does not use are ignored.

        Raises
        ------
        DataError
            If a record is not an object. If all fields are numbers, also if a value is not a
            number, or too large for float32.
        ConfigurationError
            If a sentence encoder fails.

        Examples
        --------
        >>> layout = RecordLayout(2, numbers=("a", "b.c"))
        >>> layout.encode([{"id": 1, "a": 0.5, "b": {"c": 3}}, {"a": None}])
        array([[0.5, 3. ],
               [nan, nan]], dtype=float32)
        """
        for n, record in enumerate(records):
            if not isinstance(record, Mapping):
                raise DataError(
                    f"record {n} is a {type(record).__name__}: give decoded JSON objects, such as "
                    "dictionaries"
                )
        if self.features is None:
            return self._encode_numbers(records)
        read = make_values_reader(list(self.features.fields), self.hidden)  # type: ignore[arg-type]
        rows = self.features.encode_arrivals([read(record) for record in records])
        return np.ascontiguousarray(rows[:, : self.n_features])

    def _encode_numbers(self, records: Sequence[Mapping[str, Any]]) -> np.ndarray:
        X = np.full((len(records), len(self.numbers)), np.nan)
        for column, name in enumerate(self.numbers):
            read = path_getter(name)
            for row, record in enumerate(records):
                value = read(record)
                if value is not None:
                    X[row, column] = _number_or_error(row, name, value)
        with np.errstate(over="ignore"):
            rows = X.astype(np.float32)
        if np.isinf(rows).any():
            row, column = np.argwhere(np.isinf(rows))[0].tolist()
            raise DataError(
                f"record {row}, field {self.numbers[column]!r}: {X[row, column]:g} is too large "
                "for a float32: leave the value out"
            )
        return rows[:, : self.n_features]

    def to_metadata(self) -> dict[str, str]:
        """Return the layout as a mapping from key to text, for the metadata of an exported file."""
        state, tables = (None, {}) if self.features is None else self.features.state()
        document = {
            "format": _FORMAT,
            **self.about,
            "n_features": self.n_features,
            "numbers": self.numbers,
            "hidden": self.hidden,
            "features": state,
        }
        found = {LAYOUT: json.dumps(document)}
        if tables:
            packed = zlib.compress(encode_sealed_file(tables, kind=_KIND))
            found[TABLES] = base64.b64encode(packed).decode()
        return found

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[str, str], encoders: SentenceEncoders | None = None
    ) -> "RecordLayout":
        """Create a layout from the metadata of an exported file.

        With ONNX Runtime, the metadata is `session.get_modelmeta().custom_metadata_map`. `encoders`
        loads the sentence encoders of text fields; None: from paths relative to the current folder.
        An encoder may be a function, whose module is imported: read layouts of trusted files only.

        Raises
        ------
        ModelFileError
            If the metadata has no layout, or the layout is damaged or of another release.
        StateError
            If the files of a sentence encoder are not those of the export.
        """
        if LAYOUT not in metadata:
            raise ModelFileError(
                f"the metadata has no {LAYOUT}: export the committee with `streamboost export`, "
                "which stores the layout of the fields"
            )
        try:
            about = dict(json.loads(metadata[LAYOUT]))
            if (found := about.pop("format")) != _FORMAT:
                raise ModelFileError(
                    f"the layout has format {found!r}, and this release reads {_FORMAT}: export "
                    "the committee again"
                )
            state, n_features = about.pop("features"), about.pop("n_features")
            numbers, hidden = (tuple(about.pop(name)) for name in ("numbers", "hidden"))
            features = None
            if state is not None:
                features = Features.restore(state, _unpack_arrays(metadata), encoders)
                features.check_encoders_unchanged()
            return cls(n_features, features, numbers, hidden, about)
        except (LookupError, TypeError, ValueError, zlib.error) as error:
            if isinstance(error, ConfigurationError):
                raise
            raise ModelFileError(
                f"the layout is damaged: {error!r}; export the committee again"
            ) from error


def _number_or_error(row: int, name: str, value: Any) -> float:
    """Return `value` as a float; raise DataError with the row and field name if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise DataError(
            f"record {row}, field {name!r}: {value!r:.80} is no number: give a number, or leave "
            "the value out"
        )
    try:
        return float(value)
    except OverflowError:
        return float("inf")  # the caller reports the field


def _unpack_arrays(metadata: Mapping[str, str]) -> Arrays:
    """Return the arrays of the record encoder, which `metadata` has as text; empty without them."""
    if TABLES not in metadata:
        return {}
    blob = zlib.decompress(base64.b64decode(metadata[TABLES]))
    return decode_sealed_file(TABLES, blob, kind=_KIND)[0]


def encode(records: Sequence[Mapping[str, Any]], layout: RecordLayout) -> np.ndarray:
    """Return the rows of `records`, float32 (n, D); the same as `layout.encode(records)`."""
    return layout.encode(records)


def read_layout(path: Path | str, encoders: SentenceEncoders | None = None) -> RecordLayout:
    """Read the record layout (columns and record encoder) from the exported file at `path`.

    The file format is detected from the content. `encoders` is as in `RecordLayout.from_metadata`.

    Raises
    ------
    ConfigurationError
        If the file is an ONNX model, and the package onnx is missing.
    ModelFileError
        If the file cannot be read, or as in `RecordLayout.from_metadata`.
    StateError
        As in `RecordLayout.from_metadata`.
    """
    path = Path(path)
    try:
        blob = path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from error
    if blob.startswith(b"tree\n"):
        try:
            metadata = read_metadata(blob.decode())
        except ValueError as error:
            raise _damaged_file_error(path) from error
    elif blob[8:9] == b"{":
        metadata = decode_sealed_file(path, blob, kind="committee")[1]
    else:
        metadata = _onnx_metadata(path, blob)
    return RecordLayout.from_metadata(metadata, encoders)


def _damaged_file_error(path: Path) -> ModelFileError:
    return ModelFileError(f"{path}: is no exported file, or damaged: export the committee again")


def _onnx_metadata(path: Path, blob: bytes) -> dict[str, str]:
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{path}: the package onnx is not installed, and reads the file's metadata: install "
            "streamboost[export], or pass ONNX Runtime's metadata to RecordLayout.from_metadata"
        ) from error
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model_from_string(blob)
    except DecodeError as error:
        raise _damaged_file_error(path) from error
    return {prop.key: prop.value for prop in model.metadata_props}
