"""The elements that pages are made of: plain HTML, and four small components of our own.

NiceGUI's own charts and HTML boxes compile templates in the browser, which a strict content
security policy forbids; these render by functions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import nicegui.elements.echart
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from streamboost.pipelines.service.pages.tables import Table

__all__ = ["STATIC", "Answers", "Chart", "DataTable", "Tag", "Theme"]

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
        columns = [{"text": column.text, "kind": column.kind} for column in table.columns]
        self.show(caption=table.caption, columns=columns, rows=cells(table.rows))


class Theme(_Component, component=STATIC / "theme.js"):
    """Chooses light or dark."""


class Answers(_Component, component=STATIC / "answers.js"):
    """The answers to choose from."""


def cells(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the rows of a table as JSON can hold them."""
    return [
        [value if isinstance(value, str) else _without_nothing(asdict(value)) for value in row]
        for row in rows
    ]


def _without_nothing(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
