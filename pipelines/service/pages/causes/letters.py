"""The messages that could not be used: by reason, with their payload, and to be sent again."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from nicegui.events import GenericEventArguments

from streamboost.connectors.messages.labels import as_text
from streamboost.connectors.messages.written import Label
from streamboost.errors import DataError, StreamBoostError
from streamboost.features.paths import getter
from streamboost.pipelines.service.access.people import Person
from streamboost.pipelines.service.labelling.served import Served
from streamboost.pipelines.service.pages.view import page_of
from streamboost.pipelines.service.pages.widgets import Resend, Sentence, Tag
from streamboost.pipelines.status.formatting import amount, clock, sentence
from streamboost.pipelines.status.reader import Status

__all__ = ["send_again", "show_letters"]

MOST = 50
"""Letters shown of one reason: the newest."""

_TO_DO = (
    "Nothing was predicted or learned from them, and all else went on. Open one to see what was "
    "wrong with it; then mend its text and send it again, or mend what sends such messages. One "
    "that nobody needs may stay: it goes as newer ones come."
)

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def show_letters(
    letters: Sequence[Status], total: int, served: Served, person: Person, reason: str | None
) -> None:
    """Show dead letters, those of one `reason` or all."""
    counts = Counter(str(letter.get("reason")) for letter in letters)
    with Tag("section", classes="panel", aria_labelledby="letters-title"):
        Tag("h2", "Why they could not be used", id="letters-title")
        about = f"{amount(total)} since the start; the newest {len(letters)} are kept here."
        Tag("p", about, "about")
        if not letters:
            Tag("p", "None: every message could be used.", "summary empty")
            return
        Tag("p", _TO_DO, "about")
        with Tag("ul", classes="filters", aria_label="Reasons"):
            _filter("all", len(letters), None, served.name, is_chosen=reason is None)
            for name, n in counts.most_common():
                _filter(name, n, name, served.name, is_chosen=name == reason)
        shown = [one for one in letters if reason is None or one.get("reason") == reason][:MOST]
        if not shown:
            Tag("p", "None of that reason are kept.", "summary empty")
        said = Sentence("p", "said", role="status", aria_live="polite")
        with Tag("ul", classes="letters whole"):
            for number, letter in enumerate(shown):
                with Tag("li"):
                    _letter(number, letter, served, person, said)


def _filter(title: str, n: int, reason: str | None, pipeline: str, *, is_chosen: bool) -> None:
    current = {"aria_current": "true"} if is_chosen else {}
    with Tag("li"), Tag("a", href=page_of("/letters", pipeline, reason=reason), **current):
        Tag("span", title)
        Tag("span", f" {n:,}", "count")


def _letter(
    number: int, letter: Mapping[str, Any], served: Served, person: Person, said: Sentence
) -> None:
    with Tag("details"):
        with Tag("summary"):
            Tag("span", str(letter.get("reason")), "chip bad")
            Tag("span", f"{letter.get('source')}, {clock(letter.get('time'))}")
            Tag("bdi", str(letter.get("detail", "")), "cause")
        Tag("p", _where(letter), "about")
        with Tag("pre", tabindex="0", role="region", aria_label="Payload"):
            Tag("bdi", str(letter.get("payload", "")))
        if person.role != "operator":
            Tag("p", "To send it again is an operator's to do.", "about")
        elif not _is_whole(letter):
            Tag("p", "It is not kept whole: send it again from where it came.", "about")
        else:

            async def send(event: GenericEventArguments) -> None:
                text = str((event.args or {}).get("text", ""))
                try:
                    await asyncio.to_thread(send_again, letter, text, served, person)
                except StreamBoostError as error:
                    said.say("{}", sentence(str(error)))
                else:
                    said.say("Sent again, to the {}.", str(letter.get("source")))

            resend = Resend()
            resend.show(text=str(letter.get("payload", "")), number=number)
            resend.on("sent", send)


def _where(letter: Mapping[str, Any]) -> str:
    position = letter.get("position") or {}
    place = ", ".join(f"partition {one}, offset {at}" for one, at in position.items())
    return f"{amount(letter.get('size'))} bytes, from {place}."


def _is_whole(letter: Mapping[str, Any]) -> bool:
    payload = str(letter.get("payload", ""))
    return letter.get("encoding") == "utf-8" and len(payload.encode()) == letter.get("size")


def send_again(letter: Mapping[str, Any], text: str, served: Served, person: Person) -> None:
    """Write the message `text`, mended, to where the letter's came from.

    Raises DataError where the pipeline could not use it either, and what a write raises.
    """
    try:
        message = _decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise DataError(f"that is no JSON object: {error}") from None
    if letter.get("source") != "labels":
        served.records.write([message])
        return
    schema = served.config.sections.build_schema()
    of_id, of_label = schema.label_fields.id or schema.id, schema.label_fields.label
    id, label = getter(of_id)(message), getter(of_label)(message)
    if not isinstance(id, str | int) or not isinstance(label, str | int):
        raise DataError(f"a label needs {of_id!r} and {of_label!r}: mend it")
    # Whoever sends it says so: only a program speaks for others.
    served.queue.post(person, [Label(str(id), as_text(label), None, person.name)])
