"""What every page has around its content: the way to the other pages, and the theme."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlencode

from nicegui import ui

from streamboost.pipelines.service.pages.widgets import Tag, Theme

__all__ = ["Header", "main", "page_of"]


class Header:
    """The top of a page, beside its main part rather than in it, as a screen reader expects."""

    def __init__(self, here: str, pipeline: str | None, pipelines: Sequence[str]) -> None:
        with ui.context.client.layout:
            skip = Tag("a", "Skip to the content", "skip", href="#content")
            top = Tag("header", classes="top")
        top.move(target_index=0)
        skip.move(target_index=0)
        with top:
            with Tag("div", classes="inner"):
                Tag("a", "streamboost", "brand", href="/")
                with Tag("nav", aria_label="Pages"):
                    for title, path in (("Dashboard", "/"), ("Labelling", "/label")):
                        link = Tag(
                            "a", title, href=page_of(path, pipeline), **_current(path == here)
                        )
                        if path == "/label":
                            with link:
                                self._count = Tag("span", "", "count")
                Theme()
            if len(pipelines) > 1:
                with Tag("nav", classes="inner pipelines", aria_label="Pipelines"):
                    Tag("a", "all", href="/", **_current(pipeline is None))
                    for name in pipelines:
                        Tag("a", name, href=page_of(here, name), **_current(name == pipeline))

    def show_open(self, n: int) -> None:
        """Show how many requests are open."""
        self._count.text = f"{n:,} open" if n else ""


@contextmanager
def main(title: str) -> Iterator[Tag]:
    """Fill the main part of a page, with its heading first; the skip link leads there."""
    with Tag("div", classes="content", id="content", tabindex="-1") as element:
        Tag("h1", title)
        yield element


def _current(is_here: bool) -> dict[str, str]:
    return {"aria_current": "page"} if is_here else {}


def page_of(path: str, pipeline: str | None) -> str:
    """Return the address of a page about a pipeline.

    >>> page_of("/label", "a & b")
    '/label?pipeline=a+%26+b'
    """
    return path if pipeline is None else f"{path}?{urlencode({'pipeline': pipeline})}"
