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

from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.dashboard.widgets import Tag, ThemeSelector
from streamboost.pipelines.service.auth.login import LOGOUT
from streamboost.pipelines.service.auth.users import User

__all__ = ["Header", "add_csp_nonces", "main_element"]


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
    """Page header with navigation, record search, user and theme."""

    def __init__(
        self, current_path: str, pipeline: str | None, pipelines: Sequence[str], person: User
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
                            "a",
                            title,
                            href=page_address(path, pipeline),
                            **_current_page_attributes(path == current_path),
                        )
                        with link:
                            self._counts[path] = Tag("span", "", "count")
                if pipeline is not None:
                    self._add_search_box(pipeline)
                with Tag("form", classes="person", method="post", action=LOGOUT):
                    with Tag("span", classes="who", title=f"{person.name}, {person.role}"):
                        Tag("bdi", person.name)
                        Tag("span", ", operator" if person.role == "operator" else "")
                    Tag("button", "Log out")
                ThemeSelector()
            if len(pipelines) > 1:
                with Tag("nav", classes="inner pipelines", aria_label="Pipelines"):
                    Tag("a", "all", href="/", **_current_page_attributes(pipeline is None))
                    for name in pipelines:
                        Tag(
                            "a",
                            name,
                            href=page_address(current_path, name),
                            **_current_page_attributes(name == pipeline),
                        )

    def _add_search_box(self, pipeline_name: str) -> None:
        """Add a search box for records, by an id or by its first characters."""
        with Tag("form", classes="search", role="search", action="/record"):
            Tag("input", type="hidden", name="pipeline", value=pipeline_name)
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

    def show_counts(self, view: StatusSnapshot) -> None:
        """Show the numbers of open requests and of dead letters in the navigation."""
        n, unusable = view.n_open_requests, int(view.document("join").get("dead_letters") or 0)
        # The space separates the number from the link's name for screen readers.
        self._counts["/label"].text = f" {n:,} open" if n else ""
        if "/dead-letters" in self._counts:
            self._counts["/dead-letters"].text = f" {unusable:,}" if unusable else ""


@contextmanager
def main_element(title: str) -> Iterator[Tag]:
    """Create the main element of a page with the heading `title`; yield the element."""
    with Tag("div", classes="content", id="content", tabindex="-1") as element:
        Tag("h1", title)
        yield element


def _current_page_attributes(is_current: bool) -> dict[str, str]:
    return {"aria_current": "page"} if is_current else {}


def add_csp_nonces() -> None:
    """Patch NiceGUI's page template, so that its scripts and styles have the CSP nonce.

    A middleware has stored the nonce in the request's state as ``csp_nonce``. Values that the
    template inserts are unchanged: a script in data has no nonce, and the browser blocks it.
    """
    environment = nicegui.client.templates.env
    if not isinstance(environment.loader, _NonceTemplateLoader):
        assert environment.loader is not None
        environment.loader = _NonceTemplateLoader(environment.loader)


class _NonceTemplateLoader(jinja2.BaseLoader):
    """Jinja template loader that adds CSP nonces to the templates that `inner` loads."""

    NONCE = 'nonce="{{ request.state.csp_nonce }}"'

    def __init__(self, inner: jinja2.BaseLoader) -> None:
        self._inner = inner

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str | None, Callable[[], bool] | None]:
        """Return a template's text with nonces, its file name, and a check if it is up to date."""
        text, name, is_current = self._inner.get_source(environment, template)
        text = re.sub(r"<(script|style)\b", rf"<\1 {self.NONCE}", text)
        # The pages do not use these fonts, and the import would block the first paint.
        text = re.sub(r"@import url\([^)]*/fonts\.css\"\)[^;]*;", "", text)
        # These two parts contain our own styles and those of NiceGUI's components.
        styled = """replace("<style>", '<style nonce="' + request.state.csp_nonce + '">') | safe"""
        for part in ("head_html", "body_html"):
            text = text.replace(f"{{{{ {part} | safe }}}}", f"{{{{ {part} | {styled} }}}}")
        return text.replace('style="display: none"', "hidden"), name, is_current
