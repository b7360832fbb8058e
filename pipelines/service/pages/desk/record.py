"""The record that somebody is to label: what it is, why it is asked for, and its likes."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.connectors.messages.labels import as_text
from streamboost.pipelines.service.labelling.queue import OpenRequest
from streamboost.pipelines.service.pages.desk import questions
from streamboost.pipelines.service.pages.standing import UNSTARTED
from streamboost.pipelines.service.pages.widgets import Sentence, Tag
from streamboost.pipelines.status.labelled import SMALL_IMAGE

__all__ = ["UNTOLD", "Near", "Record", "guess_of", "picture_of", "show_field"]

UNTOLD = "The committee's guess is told once you have answered."


class Record:
    """The record at the top of the page: what it is, why it is asked, and its further fields."""

    def __init__(self, *, blind: bool) -> None:
        self._blind = blind
        with Tag("div", aria_live="polite"):
            self._title = Sentence("h2", id="record-title")
            self._guess = Sentence("p", "guess")
            self._why = Tag("p", "", "why")
        self._fields = Tag("dl", classes="fields")
        self._shown: Mapping[str, Any] = {}

    def show(
        self,
        request: OpenRequest,
        about: Mapping[str, Any],
        refusal: str | None,
        *,
        changing: bool = False,
        gone: bool = False,
    ) -> None:
        """Show a request; without one, say what to do.

        Nothing of the guess is told where an answer is `changing`, or the request is `gone`.
        """
        if changing:
            self._title.say("Record {}", request["id"])
            there = request.get("features") or request.get("fields")
            self._guess.say("" if there else "Its fields are no longer kept.")
            self._why.text = "Its answer is being changed."
        elif gone:
            self._title.say("Record {}", request["id"])
            self._guess.say("")
            self._why.text = ""
        elif not request:
            self._title.say("Nothing to label")
            self._guess.say("")
            self._why.text = refusal or _idle(about)
        else:
            self._title.say("Record {}", request["id"])
            self._guess.say(*((UNTOLD,) if self._blind else guess_of(request)))
            reason = questions.why(request, about.get("strategy") or {})
            reason = "" if self._blind else reason
            self._why.text = refusal or f"{reason} {questions.until(request)}".strip()
        given = request.get("features") or {}
        fields = {name: value for name, value in given.items() if questions.is_long(value)}
        fields |= request.get("fields") or {}
        if fields != self._shown:
            self._shown = fields
            self._fields.clear()
            with self._fields:
                # What is looked at first comes first: pictures, then texts.
                for name, value in sorted(fields.items(), key=lambda one: _room(one[1])):
                    with Tag("div", classes=f"field {questions.kind_of(value)}"):
                        with Tag("dt"):
                            Tag("bdi", str(name))
                        with Tag("dd"):
                            show_field(value)


def _room(value: Any) -> int:
    """Return how far down a field stands: an image first, then a long text, then the others."""
    if questions.kind_of(value) == "image":
        return 0
    return 1 if questions.is_long(value) else 2


def show_field(value: Any) -> None:
    """Show the value of a field: an image, a link, or text."""
    kind = questions.kind_of(value)
    if kind == "image":
        Tag("img", src=value, alt="The image in this field")
    elif kind == "link":
        with Tag("a", href=value, rel="noreferrer noopener", target="_blank"):
            Tag("bdi", value)
    else:
        Tag("bdi", "missing" if value is None else str(value), kind)


def picture_of(found: Mapping[str, Any]) -> str | None:
    """Return the first small image that a record holds."""
    values = [*(found.get("fields") or {}).values(), *(found.get("features") or {}).values()]
    images = (one for one in values if questions.kind_of(one) == "image")
    return next((one for one in images if len(one) <= SMALL_IMAGE), None)


class Near:
    """The labelled records most like the one before somebody."""

    def __init__(self) -> None:
        self._panel = Tag("section", classes="panel near", aria_labelledby="near-title")
        with self._panel:
            Tag("h2", "Most alike, of those labelled", id="near-title")
            self._list = Tag("ul", classes="alike")
        self._shown: Sequence[Mapping[str, Any]] | None = None

    def show(self, request: OpenRequest) -> None:
        """Show those of a request."""
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
                    Tag("bdi", str(as_text(one["label"])), "label")
                    with Tag("span", classes="whose"):
                        Tag("span", "record ")
                        Tag("bdi", str(one["id"]))


def guess_of(request: OpenRequest) -> tuple[str, ...]:
    """Return what the committee guesses in words, and the names in them."""
    label = as_text(request.get("label"))
    if label is None:
        return ("The committee had no guess.",)
    share = (request.get("probabilities") or {}).get(str(label))
    sure = "" if share is None else f", {100 * share:.0f} % sure"
    return f"The committee guesses {{}}{sure}.", str(label)


def _idle(about: Mapping[str, Any]) -> str:
    if not about:
        return UNSTARTED
    return (
        "Every request is answered, or for somebody else: what counts as open elsewhere may be on "
        "its way to the pipeline. New ones appear here by themselves."
    )
