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
from streamboost.pipelines.dashboard.widgets import ConnectionNotice, Tag, ThemeSelector
from streamboost.pipelines.service.auth.login import LOGOUT
from streamboost.pipelines.service.auth.users import User

PARTS = (
    ("Overview", "/", ()),
    ("Quality", "/quality", (("Versions", "/versions"), ("Records", "/records"))),
    ("Labelling", "/labelling", (("Label records", "/label"),)),
    ("Drift", "/drift", (("Features", "/features"),)),
    ("Operations", "/operations", (("Dead letters", "/dead-letters"),)),
)
"""Title, path and further pages of each part of the dashboard."""

COUNTED = {"/label": "Label", "/dead-letters": "Dead letters"}
"""Title of the links that each page has while there are open requests or dead letters."""


class Header:
    """Page header with navigation, record search, user and theme."""

    def __init__(
        self, current_path: str, pipeline: str | None, pipelines: Sequence[str], person: User
    ) -> None:
        self._counts: dict[str, tuple[Tag, Tag]] = {}
        with ui.context.client.layout:
            skip = Tag("a", "Skip to the content", "skip", href="#content")
            top = Tag("header", classes="top")
        top.move(target_index=0)
        skip.move(target_index=0)
        with top:
            with Tag("div", classes="inner"):
                Tag("a", "streamboost", "brand", href="/")
                with Tag("nav", aria_label="Pages"):
                    for title, path, pages in PARTS if pipeline is not None else PARTS[:1]:
                        is_current = current_path in (path, *(one for _, one in pages))
                        _add_page_link(title, path, pipeline, is_current=is_current)
                    for path, title in COUNTED.items():
                        with _add_page_link(title, path, pipeline) as link:
                            self._counts[path] = link, Tag("span", "", "count")
                        link.classes("counted").set_visibility(False)
                if pipeline is not None:
                    self._add_search_box(pipeline)
                with Tag("form", classes="person", method="post", action=LOGOUT):
                    with Tag("span", classes="who", title=f"{person.name}, {person.role}"):
                        Tag("bdi", person.name)
                        Tag("span", ", operator" if person.role == "operator" else "")
                    Tag("button", "Log out")
                ThemeSelector()
            with Tag("div", classes="inner lower"):
                self._add_section_navigation(current_path, pipeline)
                if len(pipelines) > 1:
                    with Tag("nav", classes="pipelines", aria_label="Pipelines"):
                        _add_page_link("all", "/", None, is_current=pipeline is None)
                        for name in pipelines:
                            _add_page_link(name, current_path, name, is_current=name == pipeline)

    @staticmethod
    def _add_section_navigation(current_path: str, pipeline: str | None) -> None:
        """Add links to the pages of the current section, if the section has several pages."""
        for title, path, pages in PARTS:
            links = ("Summary", path), *pages
            if pages and pipeline is not None and current_path in (one for _, one in links):
                with Tag("nav", classes="pages", aria_label=title):
                    for name, one in links:
                        _add_page_link(name, one, pipeline, is_current=one == current_path)

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
        for (link, count), number in zip(self._counts.values(), (n, unusable), strict=True):
            link.set_visibility(number > 0)
            count.text = f" {number:,}"


@contextmanager
def main_element(title: str) -> Iterator[Tag]:
    """Create the main element of a page with the heading `title`; yield the element."""
    with Tag("div", classes="content", id="content", tabindex="-1") as element:
        ConnectionNotice()
        Tag("h1", title)
        yield element


def _add_page_link(title: str, path: str, pipeline: str | None, *, is_current: bool = False) -> Tag:
    current = {"aria_current": "page"} if is_current else {}
    return Tag("a", title, href=page_address(path, pipeline), **current)


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
