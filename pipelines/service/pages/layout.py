"""What every page has around its content: the way to the other pages, the theme, and nonces.

With nonces for the scripts and styles of NiceGUI's pages the content security policy needs neither
'unsafe-inline' nor 'unsafe-eval', as long as no element is used that compiles a template in the
browser or is given JavaScript to run.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import jinja2
import nicegui.client
from nicegui import ui

from streamboost.pipelines.service.access.entrance import LOGOUT
from streamboost.pipelines.service.access.people import Person
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.service.pages.widgets import Tag, Theme

__all__ = ["Header", "bear_nonces", "main"]


PAGES = (
    ("Dashboard", "/"),
    ("Labelling", "/label"),
    ("Records", "/records"),
    ("Versions", "/versions"),
    ("Features", "/features"),
    ("Dead letters", "/letters"),
)
"""The pages there are; the first two also of no pipeline in particular."""


class Header:
    """The top of a page, beside its main part rather than in it, as a screen reader expects."""

    def __init__(
        self, here: str, pipeline: str | None, pipelines: Sequence[str], person: Person
    ) -> None:
        self._counts: dict[str, Tag] = {}
        with ui.context.client.layout:
            skip = Tag("a", "Skip to the content", "skip", href="#content")
            top = Tag("header", classes="top")
        top.move(target_index=0)
        skip.move(target_index=0)
        with top:
            with Tag("div", classes="inner"):
                Tag("a", "streamboost", "brand", href="/")
                with Tag("nav", aria_label="Pages"):
                    for title, path in PAGES if pipeline is not None else PAGES[:2]:
                        link = Tag(
                            "a", title, href=page_of(path, pipeline), **_current(path == here)
                        )
                        with link:
                            self._counts[path] = Tag("span", "", "count")
                if pipeline is not None:
                    self._search(pipeline)
                with Tag("form", classes="person", method="post", action=LOGOUT):
                    with Tag("span", classes="who", title=f"{person.name}, {person.role}"):
                        Tag("bdi", person.name)
                        Tag("span", ", operator" if person.role == "operator" else "")
                    Tag("button", "Log out")
                Theme()
            if len(pipelines) > 1:
                with Tag("nav", classes="inner pipelines", aria_label="Pipelines"):
                    Tag("a", "all", href="/", **_current(pipeline is None))
                    for name in pipelines:
                        Tag("a", name, href=page_of(here, name), **_current(name == pipeline))

    def _search(self, pipeline: str) -> None:
        """Have a box that leads to a record by its id, or by how that begins."""
        with Tag("form", classes="search", role="search", action="/record"):
            Tag("input", type="hidden", name="pipeline", value=pipeline)
            Tag("label", "Record", for_="record-id", classes="sr-only")
            Tag(
                "input",
                id="record-id",
                name="id",
                type="search",
                placeholder="Record id",
                required=True,
                autocomplete="off",
            )
            Tag("button", "Find")

    def show(self, view: View) -> None:
        """Show how many requests are open, and how many messages could not be used."""
        n, unusable = view.open_requests, int(view.document("join").get("dead_letters") or 0)
        # The space is for whoever has the name of the link read out.
        self._counts["/label"].text = f" {n:,} open" if n else ""
        if "/letters" in self._counts:
            self._counts["/letters"].text = f" {unusable:,}" if unusable else ""


@contextmanager
def main(title: str) -> Iterator[Tag]:
    """Fill the main part of a page, with its heading first; the skip link leads there."""
    with Tag("div", classes="content", id="content", tabindex="-1") as element:
        Tag("h1", title)
        yield element


def _current(is_here: bool) -> dict[str, str]:
    return {"aria_current": "page"} if is_here else {}


def bear_nonces() -> None:
    """Have NiceGUI's page template give its scripts and styles the nonce of the response.

    A middleware has put it into the request's state as ``csp_nonce``. What the template fills in is
    not touched: markup in data would go without, and be refused.
    """
    environment = nicegui.client.templates.env
    if not isinstance(environment.loader, _Nonces):
        assert environment.loader is not None
        environment.loader = _Nonces(environment.loader)


class _Nonces(jinja2.BaseLoader):
    """Loads templates as `inner` does, with nonces."""

    NONCE = 'nonce="{{ request.state.csp_nonce }}"'

    def __init__(self, inner: jinja2.BaseLoader) -> None:
        self._inner = inner

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str | None, Callable[[], bool] | None]:
        """Return a template's text, where it comes from, and what tells whether it is current."""
        text, name, is_current = self._inner.get_source(environment, template)
        text = re.sub(r"<(script|style)\b", rf"<\1 {self.NONCE}", text)
        # No page uses its fonts, and nothing is painted before it has come.
        text = re.sub(r"@import url\([^)]*/fonts\.css\"\)[^;]*;", "", text)
        # Our own styles, and NiceGUI's for its components, come by these two.
        styled = """replace("<style>", '<style nonce="' + request.state.csp_nonce + '">') | safe"""
        for part in ("head_html", "body_html"):
            text = text.replace(f"{{{{ {part} | safe }}}}", f"{{{{ {part} | {styled} }}}}")
        return text.replace('style="display: none"', "hidden"), name, is_current
