"""Dead letters page: lists unusable messages by reason, with their payload, and resends them."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from nicegui.events import GenericEventArguments

from streamboost.connectors.messages.labels import label_from_json
from streamboost.connectors.messages.outgoing import Label
from streamboost.errors import DataError, StreamBoostError
from streamboost.features.paths import path_getter
from streamboost.pipelines.dashboard.view import page_address
from streamboost.pipelines.dashboard.widgets import BidiText, ResendEditor, Tag, event_fields
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.blind import HIDDEN
from streamboost.pipelines.service.labelling.served import ServedPipeline
from streamboost.pipelines.status.formatting import number_text, time_text, to_sentence
from streamboost.pipelines.status.reader import Status

MOST = 50
"""Maximum number of dead letters shown, the newest first."""

_TO_DO = (
    "Nothing was predicted or learned from them. Open a message to see the error. Fix its text and "
    "resend it, or fix the program that sends such messages. A message that is not needed may "
    "stay: newer ones replace it."
)

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def show_dead_letters(
    letters: Sequence[Status], total: int, served: ServedPipeline, person: User, reason: str | None
) -> None:
    """Show the dead letters `letters`; `reason` restricts the list to one reason (None: all).

    `total` is the number of dead letters since the start, of which `letters` are still stored.
    """
    counts = Counter(str(letter.get("reason")) for letter in letters)
    with Tag("section", classes="panel", aria_labelledby="letters-title"):
        Tag("h2", "Why they could not be used", id="letters-title")
        about = f"{number_text(total)} since the start; the newest {len(letters)} are kept here."
        Tag("p", about, "about")
        if not letters:
            Tag("p", "None: every message could be used.", "summary empty")
            return
        Tag("p", _TO_DO, "about")
        with Tag("ul", classes="filters", aria_label="Reasons"):
            _add_reason_filter_link(
                "all", len(letters), None, served.name, is_chosen=reason is None
            )
            for name, n in counts.most_common():
                _add_reason_filter_link(name, n, name, served.name, is_chosen=name == reason)
        shown = [one for one in letters if reason is None or one.get("reason") == reason][:MOST]
        if not shown:
            Tag("p", "None has this reason.", "summary empty")
        said = BidiText("p", "said", role="status", aria_live="polite")
        with Tag("ul", classes="letters whole"):
            for number, letter in enumerate(shown):
                with Tag("li"):
                    _show_dead_letter(number, letter, served, person, said)


def _add_reason_filter_link(
    title: str, n_letters: int, reason: str | None, pipeline: str, *, is_chosen: bool
) -> None:
    current = {"aria_current": "true"} if is_chosen else {}
    with (
        Tag("li"),
        Tag("a", href=page_address("/dead-letters", pipeline, reason=reason), **current),
    ):
        Tag("span", title)
        Tag("span", f" {n_letters:,}", "count")


def _show_dead_letter(
    number: int,
    letter: Mapping[str, Any],
    served: ServedPipeline,
    person: User,
    result_sentence: BidiText,
) -> None:
    with Tag("details"):
        with Tag("summary"):
            Tag("span", str(letter.get("reason")), "chip bad")
            Tag("span", f"{letter.get('source')}, {time_text(letter.get('time'))}")
            Tag("bdi", str(letter.get("detail", "")), "cause")
        Tag("p", _size_and_position_text(letter), "about")
        if HIDDEN in letter:
            Tag("p", "Payload and detail are hidden, as they may have a label.", "about")
            return
        with Tag("pre", tabindex="0", role="region", aria_label="Payload"):
            Tag("bdi", str(letter.get("payload", "")))
        if person.role != "operator":
            Tag("p", "Only operators can resend messages.", "about")
        elif not _has_complete_payload(letter):
            Tag("p", "The payload is truncated or not UTF-8: resend it from its source.", "about")
        else:

            async def resend_corrected(event: GenericEventArguments) -> None:
                text = str(event_fields(event).get("text", ""))
                try:
                    await asyncio.to_thread(resend_dead_letter, letter, text, served, person)
                except StreamBoostError as error:
                    result_sentence.show_text("{}", to_sentence(str(error)))
                else:
                    result_sentence.show_text("Resent to the {}.", str(letter.get("source")))

            resend = ResendEditor()
            resend.show(text=str(letter.get("payload", "")), number=number)
            resend.on("sent", resend_corrected)


def _size_and_position_text(letter: Mapping[str, Any]) -> str:
    position = letter.get("position") or {}
    place = ", ".join(f"partition {one}, offset {at}" for one, at in position.items())
    return f"{number_text(letter.get('size'))} bytes, from {place}."


def _has_complete_payload(letter: Mapping[str, Any]) -> bool:
    payload = str(letter.get("payload", ""))
    return letter.get("encoding") == "utf-8" and len(payload.encode()) == letter.get("size")


def resend_dead_letter(
    letter: Mapping[str, Any], corrected_text: str, served: ServedPipeline, person: User
) -> None:
    """Write `corrected_text`, a JSON object, to the source that the dead letter came from.

    Raises DataError if the text is not a JSON object, or if a label lacks its id or value. Errors
    of the write are raised, too.
    """
    try:
        message = _decode(corrected_text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise DataError(f"that is not a JSON object: {error}") from None
    if letter.get("source") != "labels":
        served.records.write([message])
        return
    schema = served.config.sections.build_schema()
    of_id, of_label = schema.label_fields.id or schema.id, schema.label_fields.label
    id, label = path_getter(of_id)(message), path_getter(of_label)(message)
    if not isinstance(id, str | int) or not isinstance(label, str | int):
        raise DataError(f"{of_id!r} or {of_label!r} is not a text or integer: set both fields")
    # The user who resends a label is its annotator: only programs label on behalf of others.
    served.queue.post_labels(person, [Label(str(id), label_from_json(label), None, person.name)])
