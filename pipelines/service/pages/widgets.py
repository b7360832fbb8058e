"""The elements that pages are made of: plain HTML, and four small components of our own.

Text that came from elsewhere stands in `bdi`, and marks in it that turn the direction of writing
are shown as such: whatever a record holds, what stands around it keeps its place.

NiceGUI's own charts and HTML boxes compile templates in the browser, which a strict content
security policy forbids; these render by functions.
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

import nicegui.elements.echart
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from streamboost.pipelines.service.pages.tables import Cell, Table
from streamboost.pipelines.wording import visible

__all__ = ["STATIC", "AnsweredTable", "Answers", "Chart", "DataTable", "Sentence", "Tag", "Theme"]

STATIC = Path(__file__).parents[1] / "static"
ECHARTS = Path(nicegui.elements.echart.__file__).parent / "dist"


class Tag(TextElement):
    """An HTML element with a text; `attributes` are its own, with _ for - in their names."""

    def __init__(self, tag: str, text: str = "", classes: str = "", **attributes: Any) -> None:
        super().__init__(tag=tag, text=text)
        self.classes(classes)
        self._props.update({name.replace("_", "-"): value for name, value in attributes.items()})

    def set(self, **attributes: Any) -> None:
        """Change attributes, telling the browser only where they differ."""
        changed = {name.replace("_", "-"): value for name, value in attributes.items()}
        if any(self._props.get(name) != value for name, value in changed.items()):
            self._props.update(changed)
            self.update()

    def _text_to_model_text(self, text: str) -> None:
        super()._text_to_model_text(visible(text))


class Sentence(Tag):
    """A text with names in it that came from elsewhere."""

    def __init__(self, tag: str, classes: str = "", **attributes: Any) -> None:
        super().__init__(tag, "", classes, **attributes)
        self._said: tuple[str, ...] = ()

    def say(self, text: str, *names: str) -> None:
        """Say `text`, with each of `names` in the place of a ``{}``."""
        if self._said == (text, *names):
            return
        self._said = (text, *names)
        self.clear()
        with self:
            for part, name in zip_longest(text.split("{}"), names):
                if part:
                    Tag("span", part)
                if name is not None:
                    Tag("bdi", name)


class _Component(Element):
    """A component that shows what it is given."""

    def show(self, **properties: Any) -> None:
        """Give it `properties`, telling the browser only where they differ."""
        if any(self._props.get(name) != value for name, value in properties.items()):
            self._props.update(properties)
            self.update()


class Chart(_Component, component=STATIC / "chart.js", esm={"nicegui-echart": str(ECHARTS)}):
    """Curves over time."""


class DataTable(_Component, component=STATIC / "table.js"):
    """A table."""

    def show_table(self, table: Table) -> None:
        """Show `table`."""
        columns = [{"text": visible(column.text), "kind": column.kind} for column in table.columns]
        self.show(caption=table.caption, columns=columns, rows=cells(table.rows))


class Theme(_Component, component=STATIC / "theme.js"):
    """Chooses light or dark."""


class AnsweredTable(_Component, component=STATIC / "answered.js"):
    """What was answered, each of which may be changed."""


class Answers(_Component, component=STATIC / "answers.js"):
    """The answers to choose from."""


def cells(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the rows of a table as JSON can hold them."""
    return [
        [visible(value) if isinstance(value, str) else _cell(value) for value in row]
        for row in rows
    ]


def _cell(cell: Cell) -> dict[str, Any]:
    values = asdict(cell) | {"text": visible(cell.text), "note": cell.note and visible(cell.note)}
    return {name: value for name, value in values.items() if value is not None}
