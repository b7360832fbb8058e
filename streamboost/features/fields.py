"""Field types: the kind of values of a record field, with options."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from difflib import get_close_matches
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

from streamboost.errors import ConfigurationError

Kind = Literal["number", "category", "text", "time", "vector"]

_OPTIONS: dict[str, tuple[str, ...]] = {
    "number": (),
    "category": ("min_frequency",),
    "text": ("encoder", "text", "size"),
    "time": ("zone",),
    "vector": ("size",),
}


@dataclass(frozen=True, slots=True)
class Field:
    """Type of the values of a record field, with options.

    Attributes
    ----------
    kind
        "number" (also as text, and true and false), "category", "text", "time" (ISO 8601, or
        seconds or milliseconds since the epoch) or "vector" (a list of numbers).
    min_frequency
        Number of labels from which a category has its own code; rarer categories share one code.
    size
        Length of a vector. Optional with an encoder, whose vectors then must have this length.
    zone
        Time zone of times without an offset, and of the hour and day columns.
    encoder
        Sentence encoder of a text: a file or folder with an ONNX model and its `tokenizer.json`, or
        "module:function". None: the text has no vector.
    text
        Whether linear models also learn from the words of the text; False requires an encoder.

    Raises
    ------
    ConfigurationError
        If an attribute is invalid.
    """

    kind: Kind
    min_frequency: int = 1
    size: int | None = None
    zone: str = "UTC"
    encoder: str | None = None
    text: bool = True

    def __post_init__(self) -> None:
        if self.kind not in _OPTIONS:
            raise ConfigurationError(
                f"type is {self.kind!r}{_suggest_choices(self.kind, _OPTIONS)}"
            )
        if not _is_positive_integer(self.min_frequency):
            raise ConfigurationError(
                f"min_frequency is {self.min_frequency!r}: give a whole number of at least 1"
            )
        if self.kind == "vector" and not _is_positive_integer(self.size):
            raise ConfigurationError(
                f"size is {self.size!r}: say how many numbers a vector has, as in "
                '{ type = "vector", size = 384 }'
            )
        as_zone(self.zone)
        if self.kind == "text":
            self._check_text_options()

    def _check_text_options(self) -> None:
        if self.encoder is not None and not (isinstance(self.encoder, str) and self.encoder):
            raise ConfigurationError(
                f"encoder is {self.encoder!r}: name a folder with an ONNX model, or a function as "
                '"module:function"'
            )
        if not isinstance(self.text, bool):
            raise ConfigurationError(f"text is {self.text!r}: write true or false")
        if self.encoder is None and (not self.text or self.size is not None):
            option = "text = false" if not self.text else "size"
            raise ConfigurationError(f"{option} needs an encoder: name one, or leave this out")
        if self.size is not None and not _is_positive_integer(self.size):
            raise ConfigurationError(
                f"size is {self.size!r}: give a whole number of at least 1, or leave it out"
            )

    def to_config(self) -> str | dict[str, Any]:
        """Return the configuration of this field; `as_field` creates an equal field from it."""
        default = Field(self.kind, size=1 if self.kind == "vector" else None)
        options = {
            name: getattr(self, name)
            for name in _OPTIONS[self.kind]
            if (name == "size" and self.size is not None)
            or getattr(self, name) != getattr(default, name)
        }
        return {"type": self.kind, **options} if options else self.kind


def as_field(name: Any, given: "Field | str | Mapping[str, Any]") -> Field:
    """Return the field `name` from its configuration: a kind, or a table with `type` and options.

    Raises
    ------
    ConfigurationError
        If the description is invalid; the message names the field.

    Examples
    --------
    >>> as_field("zip", {"type": "category", "min_frequency": 5})
    Field(kind='category', min_frequency=5, size=None, zone='UTC', encoder=None,
          text=True)
    >>> as_field("note", "txt")
    Traceback (most recent call last):
    ...
    streamboost.errors.ConfigurationError: field 'note': type is 'txt'; did you mean 'text'?
    """
    if isinstance(given, Field):
        return given
    try:
        return _field_from_config({"type": given} if isinstance(given, str) else given)
    except ConfigurationError as error:
        raise ConfigurationError(f"field {name!r}: {error}") from error


def as_zone(name: str) -> tzinfo:
    """Return the time zone `name`; raise ConfigurationError if it does not exist."""
    if name == "UTC":
        return UTC  # also on a machine without a time zone database
    try:
        return ZoneInfo(name)
    except (TypeError, ValueError, OSError, LookupError) as error:
        raise ConfigurationError(
            f'zone is {name!r}, which is no time zone here: give a name such as "Europe/Berlin"'
        ) from error


def _field_from_config(config: Any) -> Field:
    if not isinstance(config, Mapping) or "type" not in config:
        raise ConfigurationError(
            f"{config!r} does not say what it holds: write one of {_quoted_list(get_args(Kind))}, "
            "or a table with `type`"
        )
    kind = config["type"]
    if kind not in get_args(Kind):
        raise ConfigurationError(f"type is {kind!r}{_suggest_choices(kind, _OPTIONS)}")
    options = {name: value for name, value in config.items() if name != "type"}
    for option in options:
        if option not in _OPTIONS[kind]:
            allowed = _OPTIONS[kind]
            raise ConfigurationError(
                f"{option!r} is no option of a {kind}"
                + (f": it takes {_quoted_list(allowed)}" if allowed else ", which takes none")
            )
    return Field(kind, **options)


def _is_positive_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _quoted_list(words: Any) -> str:
    return ", ".join(f"{word!r}" for word in words)


def _suggest_choices(word: Any, choices: Any) -> str:
    near = get_close_matches(str(word), choices, n=1)
    return f"; did you mean {near[0]!r}?" if near else f": write one of {_quoted_list(choices)}"
