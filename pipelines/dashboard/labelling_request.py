"""Shows a label request: the record, its features, the classes to choose, and the reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from textwrap import shorten
from typing import Any, Literal

from streamboost.connectors.messages.labels import (
    label_from_json,
    most_similar_class,
    normalize_label,
)
from streamboost.errors import DataError
from streamboost.pipelines.dashboard.status_line import UNSTARTED
from streamboost.pipelines.dashboard.tables import Cell, CellScale, Column, Table
from streamboost.pipelines.dashboard.widgets import BidiText, Tag
from streamboost.pipelines.service.labelling.queue import OpenRequest
from streamboost.pipelines.status.formatting import (
    NOTHING,
    escape_bidi,
    field_text,
    is_number,
    number_text,
    percent_text,
    time_text,
)
from streamboost.pipelines.status.neighbours import SMALL_IMAGE
from streamboost.query.strategies import UTILITIES

ACTIONS = "snucm"
"""Keys of the actions skip, not sure, undo, change and similar records."""

KEYS = "123456789" + "".join(key for key in ascii_lowercase if key not in ACTIONS)
"""Keys for classes, in the order of assignment."""

_OWN_KEYS = {*KEYS, "0"}

FieldKind = Literal["image", "link", "text", "value"]


LONG = 40
"""Length in characters above which a string is shown above the features."""

WORDS = 3
"""Number of words from which a string is a text, and is shown above the features."""

FOLDED = 600
"""Length in characters from which a text is folded, and length of its visible part."""

EXCERPT = 160
"""Maximum length in characters of the text of a similar record."""


@dataclass(frozen=True, slots=True)
class ClassChoice:
    """A class that the annotator can choose.

    `key` is its keyboard key. `share` is its probability as a text, and `part` as a number.
    `guess` is true for the predicted class.
    """

    label: str | int
    name: str
    key: str | None
    share: str | None
    part: float
    guess: bool


def assign_keys(keys: dict[str | int, str], known: Sequence[str | int]) -> None:
    """Assign keyboard keys to the `known` classes without one; the other classes keep theirs.

    If all class names are single characters, the names are the keys. Otherwise the keys are the
    digits from 1, then the letters.

    >>> keys = {}
    >>> assign_keys(keys, ["b", "cat"]); assign_keys(keys, ["a", "b", "cat"]); keys
    {'b': '1', 'cat': '2', 'a': '3'}
    >>> digits = {}
    >>> assign_keys(digits, [0, 1, 7]); digits
    {0: '0', 1: '1', 7: '7'}
    """
    speak = all(str(label).lower() in _OWN_KEYS for label in known)
    for label in known:
        taken = set(keys.values())
        free = [key for key in KEYS if key not in taken]
        own = str(label).lower()
        if label not in keys and speak and own not in taken:
            keys[label] = own
        elif label not in keys and free:
            keys[label] = free[0]


def class_choices(
    request: OpenRequest,
    known: Sequence[str | int],
    keys: Mapping[str | int, str],
    *,
    blind: bool = False,
) -> list[ClassChoice]:
    """Return the classes to choose from, in the order of their `keys`.

    The order is the same for all records. Classes without a key follow, the likeliest first. In
    `blind` mode, probabilities and the predicted class are left out.

    >>> request = {"label": "b", "probabilities": {"a": 0.25, "b": 0.75}}
    >>> keys = {"a": "1", "b": "2", "c": "3"}
    >>> found = class_choices(request, list(keys), keys)
    >>> [(one.key, one.name, one.share, one.guess) for one in found]
    [('1', 'a', '25.0 %', False), ('2', 'b', '75.0 %', True), ('3', 'c', None, False)]
    """
    probabilities = {} if blind else request.get("probabilities") or {}
    guess = None if blind else label_from_json(request.get("label"))
    shares = {label: probabilities.get(str(label)) for label in known}
    placed = [label for label in keys if label in shares]
    order = placed + sorted(
        (label for label in known if label not in keys), key=lambda label: -(shares[label] or 0.0)
    )
    return [
        ClassChoice(
            label=label,
            name=escape_bidi(str(label)),
            key=keys.get(label),
            share=None if shares[label] is None else percent_text(shares[label]),
            part=shares[label] or 0.0,
            guess=label == guess,
        )
        for label in order
    ]


@dataclass(frozen=True, slots=True)
class SimilarClass:
    """A new class `label`, and the known class `known` with a similar name.

    `name` and `near` are the texts that show them.
    """

    label: str
    name: str
    known: str | int
    near: str


ALIKE = 0.6
"""Similarity (`difflib` ratio) of a new class to a known one, from which to ask back."""


def chosen_label(answer: Mapping[str, Any], label_type: str | None) -> str | int:
    """Return the chosen label, converted to the schema's label type if possible.

    The schema rejects a label that cannot be converted. Raises DataError without a label.

    >>> chosen_label({"action": "label", "label": "7"}, "integer")
    7
    """
    label = answer.get("label")
    if answer.get("action") != "label" or not isinstance(label, str | int):
        raise DataError("that is no answer: choose a class, skip the record, or say you are unsure")
    if isinstance(label, bool) or label_type == "boolean":
        return str(label_from_json(label))
    try:
        return int(label) if label_type == "integer" else label
    except ValueError:
        return label


def find_similar_class(
    answer: Mapping[str, Any], known: Sequence[str | int], label_type: str | None
) -> SimilarClass | None:
    """Return the chosen new class if its name resembles a known class, else None.

    The annotator has to confirm such a class.

    >>> find_similar_class({"action": "label", "label": "Gras"}, ["grass", "sky"], "string").near
    'grass'
    """
    given_label = answer.get("label")
    if answer.get("action") != "label" or answer.get("sure") or not isinstance(given_label, str):
        return None
    label, fault = normalize_label(given_label)
    if fault or label in known or label_type not in (None, "string"):
        return None
    near = most_similar_class(label, known, ALIKE)
    return (
        None
        if near is None
        else SimilarClass(label, escape_bidi(label), near, escape_bidi(str(near)))
    )


def request_reason(request: OpenRequest, query: Mapping[str, Any]) -> str:
    """Describe why the query strategy requested the record.

    >>> request_reason({"label": None}, {})
    'Asked before anything had been learned, when records are picked at random.'
    >>> request_reason({"label": "a", "propensity": 0.05, "utility": 0.4}, {"strategy": "margin"})
    '1 in 20 records is requested at random, for an unbiased accuracy.'
    >>> chance = {"strategy": "margin", "selection": "probability"}
    >>> request_reason({"label": "a", "propensity": 0.25, "utility": 0.4}, chance)
    'Requested with probability 25.0 %, which grows with its utility, 0.4.'
    >>> request_reason({"label": "a", "excluded_annotators": ["ann"], "propensity": 1.0}, chance)
    'Somebody labelled it already, and that label looks wrong: it is asked for again.'
    """
    if "excluded_annotators" in request:
        return "Somebody labelled it already, and that label looks wrong: it is asked for again."
    if request.get("label") is None:
        return "Asked before anything had been learned, when records are picked at random."
    propensity = float(request.get("propensity") or 0.0)
    if query.get("selection") == "probability" and query.get("strategy") != "random":
        return (
            f"Requested with probability {percent_text(propensity)}, which grows with its utility, "
            f"{number_text(request.get('utility'))}."
        )
    if propensity >= 1:
        utility = UTILITIES.get(str(query.get("strategy")))
        reason = "Its label would teach the most"
        if utility is not None and utility.reason:
            reason = f"Of the newest records, one {utility.reason}"
        return f"{reason} ({_utility_text(request)})."
    if query.get("strategy") == "random" or propensity * 3 < 1:
        return (
            f"1 in {round(1 / propensity) if propensity else NOTHING} records is requested at "
            "random, for an unbiased accuracy."
        )
    return (
        f"Uncertain ({_utility_text(request)}): requested with probability "
        f"{percent_text(propensity)}."
    )


def _utility_text(request: OpenRequest) -> str:
    return f"utility {number_text(request.get('utility'))}"


def expiry_text(request: OpenRequest) -> str:
    """Say when the request expires; empty if it expires after a number of records."""
    expires = request.get("expires")
    return f"Open until {time_text(expires)}." if isinstance(expires, int | float) else ""


def is_long_or_media(value: Any) -> bool:
    """Return whether a value is a text of several words, a long string, an image or a link."""
    return isinstance(value, str) and (
        is_prose(value) or len(value) > LONG or field_kind(value) in ("image", "link")
    )


def is_prose(value: Any) -> bool:
    """Return whether a value is a text of at least `WORDS` words.

    >>> is_prose("please send the invoice"), is_prose("New York"), is_prose("a4f0" * 16)
    (True, False, False)
    """
    return isinstance(value, str) and len(value.split(maxsplit=WORDS)) >= WORDS


def field_kind(value: Any) -> FieldKind:
    """Return how to show the value of a field: as "image", "link", "text" or "value".

    Nothing is fetched from other servers: an address is shown as a link, and an image only if the
    record contains it as a ``data:`` URL.

    >>> field_kind("data:image/png;base64,iVBORw0KGgo="), field_kind("https://example.org/a.png")
    ('image', 'link')
    >>> field_kind("javascript:alert(1)"), field_kind(3.5)
    ('text', 'value')
    """
    if not isinstance(value, str):
        return "value"
    if value.startswith("data:image/"):
        return "image"
    is_address = value.startswith(("https://", "http://")) and not any(map(str.isspace, value))
    return "link" if is_address else "text"


WIDTH = 3.0
"""Standard deviations from the median to either end of a scale."""

UNUSUAL = 2.0
"""Standard deviations from the median above which a value is highlighted."""

Values = Mapping[str, float | None]


def request_feature_table(
    request: OpenRequest,
    statistics: Sequence[Mapping[str, Any]],
    class_medians_document: Mapping[str, Any],
    *,
    blind: bool = False,
) -> Table:
    """Build the table of a record's features, each with its position relative to the median.

    Each of `statistics` has a feature's `name`, `median`, `deviation`, and the quartiles `lower`
    and `upper`. `class_medians_document` is the status document "typical", with the feature
    medians of each class. Those of the two likeliest classes are marked on the scales, unless
    labelling is `blind`.
    """
    values = {
        name: value
        for name, value in (request.get("features") or {}).items()
        if not is_long_or_media(value)
    }
    spread = {str(one["name"]): one for one in statistics if one.get("deviation")}
    marks = {} if blind else _likely_class_medians(request, class_medians_document)
    columns = [Column("Feature", "words"), Column("Value")]
    if not any(is_number(value) and name in spread for name, value in values.items()):
        rows: list[list[str | Cell]] = [[name, field_text(value)] for name, value in values.items()]
        return Table("Features, in the order of the schema", columns, rows, "")
    columns.append(Column("Against the median"))
    rows = [
        [name, field_text(value), _median_scale_cell(value, spread.get(name), name, marks)]
        for name, value in values.items()
    ]
    return Table(
        "Features, in the order of the schema", columns, rows, _median_scale_legend(list(marks))
    )


def _likely_class_medians(
    request: OpenRequest, class_medians_document: Mapping[str, Any]
) -> dict[str, Values]:
    """Return the feature medians of the two likeliest classes: by class, then feature name."""
    chances = {name: p or 0.0 for name, p in (request.get("probabilities") or {}).items()}
    names, medians = (
        class_medians_document.get("names") or [],
        class_medians_document.get("medians") or [],
    )
    known = {
        str(label_from_json(label)): dict(zip(names, row, strict=False))
        for label, row in zip(class_medians_document.get("classes") or [], medians, strict=False)
    }
    likely = sorted(chances, key=lambda name: -chances[name])[:2]
    return {name: known[name] for name in likely if name in known}


def _median_scale_legend(class_names: Sequence[str]) -> str:
    text = "Centre: median. Band: quartiles of the newest records."
    signs = zip(("one line", "two"), class_names, strict=False)
    told = ", ".join(f"{sign} for {name}" for sign, name in signs)
    return f"{text} Marks are class medians: {told}." if told else text


def _median_scale_cell(
    value: Any, statistics: Mapping[str, Any] | None, name: str, class_medians: Mapping[str, Values]
) -> Cell:
    """Return a cell that shows a value on a scale of the median ± `WIDTH` deviations."""
    middle = None if statistics is None else statistics.get("median")
    if statistics is None or middle is None:
        return Cell(NOTHING)
    reach = WIDTH * float(statistics["deviation"])

    def scale_position(number: float) -> float:
        return min(max(0.5 + (number - float(middle)) / (2 * reach), 0.0), 1.0)

    typical = [found.get(name) for found in class_medians.values()]
    scale = CellScale(
        at=scale_position(value) if is_number(value) else None,
        low=scale_position(statistics["lower"]),
        high=scale_position(statistics["upper"]),
        marks=[None if found is None else scale_position(found) for found in typical],
    )
    told = [
        f"median of {label}: {number_text(found)}"
        for label, found in zip(class_medians, typical, strict=True)
        if found is not None
    ]
    note = (
        f"median {number_text(middle)}; {'; '.join(told)}"
        if told
        else f"median {number_text(middle)}"
    )
    if not is_number(value):
        return Cell(NOTHING, scale=scale, note=note)
    far = (value - middle) / statistics["deviation"]
    colour = "warn" if abs(far) > UNUSUAL else "series-1"
    return Cell(_distance_from_median_text(far), scale=scale, colour=colour, note=note)


def _distance_from_median_text(deviations: float) -> str:
    if abs(deviations) < 0.05:
        return "at the median"
    return f"{abs(deviations):.1f} sd {'above' if deviations > 0 else 'below'}"


UNTOLD = "The prediction is shown after your answer."


class RequestPanel:
    """Panel of the requested record: id, predicted class, reason for the request, and fields."""

    def __init__(self, *, blind: bool) -> None:
        self._blind = blind
        with Tag("div", aria_live="polite"):
            self._title = BidiText("h2", id="record-title")
            self._guess = BidiText("p", "guess")
            self._why = Tag("p", "", "why")
        self._fields = Tag("dl", classes="fields")
        self._shown: Mapping[str, Any] = {}

    def show(
        self,
        request: OpenRequest,
        pipeline_document: Mapping[str, Any],
        refusal: str | None,
        *,
        is_correction: bool = False,
        is_closed: bool = False,
    ) -> None:
        """Show `request`; if it is empty, explain why there is no request.

        The prediction is hidden while the annotator corrects an answer (`is_correction`), and if
        the request was closed (`is_closed`). `refusal` says why answers are not accepted, if so.
        """
        if is_correction:
            self._title.show_text("Record {}", request["id"])
            there = request.get("features") or request.get("fields")
            self._guess.show_text("" if there else "Its fields are no longer kept.")
            self._why.text = "Its answer is being changed."
        elif is_closed:
            self._title.show_text("Record {}", request["id"])
            self._guess.show_text("")
            self._why.text = ""
        elif not request:
            self._title.show_text("Nothing to label")
            self._guess.show_text("")
            self._why.text = refusal or _no_request_text(pipeline_document)
        else:
            self._title.show_text("Record {}", request["id"])
            self._guess.show_text(*((UNTOLD,) if self._blind else prediction_text(request)))
            reason = request_reason(request, pipeline_document.get("query") or {})
            reason = "" if self._blind else reason
            self._why.text = refusal or f"{reason} {expiry_text(request)}".strip()
        given = request.get("features") or {}
        fields = {name: value for name, value in given.items() if is_long_or_media(value)}
        fields |= request.get("fields") or {}
        if fields != self._shown:
            self._shown = fields
            self._fields.clear()
            with self._fields:
                show_fields(fields)


def show_fields(fields: Mapping[str, Any]) -> None:
    """Show the fields of a record: images and texts first, and ids and hashes last."""
    for name, value in sorted(fields.items(), key=lambda one: _field_sort_key(one[1])):
        with Tag("div", classes=f"field {field_kind(value)}"):
            with Tag("dt"):
                Tag("bdi", str(name))
            with Tag("dd"):
                _show_field_value(value)


def _field_sort_key(value: Any) -> int:
    """Return the sort key of a field: 0 for an image, 1 for a text, 3 for an id, 2 for others."""
    if field_kind(value) == "image":
        return 0
    if is_prose(value):
        return 1
    return 3 if field_kind(value) == "text" and len(value) > LONG else 2


def _show_field_value(value: Any) -> None:
    """Show the value of a field: an image, a link, or text."""
    kind = field_kind(value)
    if kind == "image":
        Tag("img", src=value, alt="The image in this field")
    elif kind == "link":
        with Tag("a", href=value, rel="noreferrer noopener", target="_blank"):
            Tag("bdi", value)
    elif kind == "text" and len(value) > FOLDED and is_prose(value):
        # The end of a word, so that none is broken.
        visible = value[:FOLDED].rsplit(None, 1)[0]
        with Tag("details", classes="long"):
            with Tag("summary"):
                Tag("bdi", visible, kind)
                Tag("span", f"Show all {len(value):,} characters", "more")
            Tag("bdi", value[len(visible) :].lstrip(), kind)
    else:
        Tag("bdi", "missing" if value is None else str(value), kind)


def record_preview(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the first small image of a record, and its longest text of at most `EXCERPT` letters.

    >>> record_preview({"features": {"note": "my parcel is late", "os": "ios"}})
    {'text': 'my parcel is late'}
    """
    values = [*(record.get("features") or {}).values(), *(record.get("fields") or {}).values()]
    text = max((one for one in values if is_prose(one)), key=len, default="")
    found = {
        "picture": first_small_image(record),
        "text": shorten(text, EXCERPT, placeholder=" …"),
    }
    return {name: value for name, value in found.items() if value}


def similar_record_cards(requests: Sequence[OpenRequest]) -> list[dict[str, str]]:
    """Return the id, the name and a preview of each record, for the grid of similar records.

    The preview of a record without a text has its features.

    >>> similar_record_cards([{"id": "7", "features": {"a": 0.5, "os": "ios"}}])
    [{'id': '7', 'name': '7', 'text': 'a 0.5, os ios'}]
    """
    found = []
    for request in requests:
        features = (request.get("features") or {}).items()
        values = (f"{name} {field_text(value)}" for name, value in features)
        preview = {"text": shorten(", ".join(values), EXCERPT, placeholder=" …")}
        preview |= record_preview(request)
        id, text = str(request["id"]), escape_bidi(preview["text"])
        found.append({"id": id, "name": escape_bidi(id)} | preview | {"text": text})
    return found


def first_small_image(record: Mapping[str, Any]) -> str | None:
    """Return the first image in a record, as a ``data:`` URL of limited size; None without any."""
    values = [*(record.get("fields") or {}).values(), *(record.get("features") or {}).values()]
    images = (one for one in values if field_kind(one) == "image")
    return next((one for one in images if len(one) <= SMALL_IMAGE), None)


class NearestRecordsPanel:
    """Panel of the labelled records that are most similar to the requested record."""

    def __init__(self) -> None:
        self._panel = Tag("section", classes="panel near", aria_labelledby="near-title")
        with self._panel:
            Tag("h2", "Most similar labelled records", id="near-title")
            self._list = Tag("ul", classes="alike")
        self._shown: Sequence[Mapping[str, Any]] | None = None

    def show(self, request: OpenRequest) -> None:
        """Show the labelled records that are most similar to the requested record."""
        found: Sequence[Mapping[str, Any]] = request.get("near") or ()
        if found == self._shown:
            return
        self._shown = found
        self._panel.set_visibility(bool(found))
        self._list.clear()
        with self._list:
            for one in found:
                with Tag("li"):
                    if "picture" in one:
                        Tag("img", src=one["picture"], alt="")
                    Tag("bdi", str(label_from_json(one["label"])), "label")
                    with Tag("span", classes="whose"):
                        Tag("span", "record ")
                        Tag("bdi", str(one["id"]))
                    if one.get("text"):
                        Tag("bdi", one["text"], "excerpt")


def prediction_text(request: OpenRequest) -> tuple[str, ...]:
    """Describe the predicted class, as a text and the names to put into its ``{}``."""
    label = label_from_json(request.get("label"))
    if label is None:
        return ("There was no prediction.",)
    share = (request.get("probabilities") or {}).get(str(label))
    sure = "" if share is None else f", {100 * share:.0f} % sure"
    return f"The prediction is {{}}{sure}.", str(label)


def _no_request_text(pipeline_document: Mapping[str, Any]) -> str:
    if not pipeline_document:
        return UNSTARTED
    return (
        "No request for you. Other open requests are for other annotators, or answered but not yet "
        "read by the pipeline. New requests appear automatically."
    )
