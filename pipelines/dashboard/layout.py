"""Common layout of the pages: header with navigation, theme, and nonces for scripts and styles.

With nonces, the content security policy needs neither 'unsafe-inline' nor 'unsafe-eval'. The pages
must not use elements that compile a template in the browser or run JavaScript from a string.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import jinja2
import nicegui.client
from nicegui import ui

from streamboost.pipelines.dashboard.view import View, page_of
from streamboost.pipelines.dashboard.widgets import Tag, Theme
from streamboost.pipelines.service.auth.login import LOGOUT
from streamboost.pipelines.service.auth.users import User

__all__ = ["Header", "bear_nonces", "main"]


PAGES = (
    ("Dashboard", "/"),
    ("Labelling", "/label"),
    ("Records", "/records"),
    ("Versions", "/versions"),
    ("Features", "/features"),
    ("Dead letters", "/dead-letters"),
)
"""Title and path of the pages; the first two also work without a pipeline."""


class Header:
    """Header of a page, outside of the main element, as screen readers expect."""

    def __init__(
        self, here: str, pipeline: str | None, pipelines: Sequence[str], person: User
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
        """Add a search box for a record by its id or a prefix of the id."""
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
        """Show the number of open requests and of dead letters."""
        n, unusable = view.open_requests, int(view.document("join").get("dead_letters") or 0)
        # The space separates the number from the link's name for screen readers.
        self._counts["/label"].text = f" {n:,} open" if n else ""
        if "/dead-letters" in self._counts:
            self._counts["/dead-letters"].text = f" {unusable:,}" if unusable else ""


@contextmanager
def main(title: str) -> Iterator[Tag]:
    """Open the main element of a page, with its heading; the skip link points to the element."""
    with Tag("div", classes="content", id="content", tabindex="-1") as element:
        Tag("h1", title)
        yield element


def _current(is_here: bool) -> dict[str, str]:
    return {"aria_current": "page"} if is_here else {}


def bear_nonces() -> None:
    """Add the response's nonce to the scripts and styles of NiceGUI's page template.

    A middleware has stored the nonce in the request's state as ``csp_nonce``. Values that the
    template inserts are unchanged: a script in data has no nonce, and the browser blocks it.
    """
    environment = nicegui.client.templates.env
    if not isinstance(environment.loader, _Nonces):
        assert environment.loader is not None
        environment.loader = _Nonces(environment.loader)


class _Nonces(jinja2.BaseLoader):
    """Template loader that adds nonces to the templates of `inner`."""

    NONCE = 'nonce="{{ request.state.csp_nonce }}"'

    def __init__(self, inner: jinja2.BaseLoader) -> None:
        self._inner = inner

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str | None, Callable[[], bool] | None]:
        """Return a template's text, its file name, and a function that checks if it is current."""
        text, name, is_current = self._inner.get_source(environment, template)
        text = re.sub(r"<(script|style)\b", rf"<\1 {self.NONCE}", text)
        # The pages do not use these fonts, and the import would block the first paint.
        text = re.sub(r"@import url\([^)]*/fonts\.css\"\)[^;]*;", "", text)
        # These two parts contain our own styles and those of NiceGUI's components.
        styled = """replace("<style>", '<style nonce="' + request.state.csp_nonce + '">') | safe"""
        for part in ("head_html", "body_html"):
            text = text.replace(f"{{{{ {part} | safe }}}}", f"{{{{ {part} | {styled} }}}}")
        return text.replace('style="display: none"', "hidden"), name, is_current
