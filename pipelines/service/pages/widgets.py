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

from streamboost.pipelines.service.pages.charts import Curves
from streamboost.pipelines.service.pages.tables import Table

__all__ = ["STATIC", "Answers", "Chart", "DataTable", "Panel", "Tag", "Theme"]

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


class Panel:
    """One part of the dashboard: a heading, what it comes to in a sentence, and the picture.

    Parameters
    ----------
    title : its heading
    about : what is shown, in a sentence
    classes : CSS classes besides
    """

    def __init__(self, title: str, about: str, classes: str = "") -> None:
        name = title.lower().replace(" ", "-")
        with Tag("section", classes=f"panel {classes}", aria_labelledby=f"{name}-title", id=name):
            Tag("h2", title, id=f"{name}-title")
            Tag("p", about, "about")
            self._summary = Tag("p", "", "summary")
            self._body = Tag("div", classes="body")
        self._chart: Chart | None = None
        self._table: DataTable | None = None

    def show_curves(self, curves: Curves) -> None:
        """Show curves, with the same in a table that can be opened."""
        self._summary.text = curves.summary
        self._summary.classes(replace="summary" if curves.times else "summary empty")
        if not curves.times:
            self._clear()
            return
        if self._chart is None:
            with self._body:
                self._chart = Chart()
                with Tag("details", classes="as-table"):
                    Tag("summary", "The same as a table")
                    self._table = DataTable()
        assert self._table is not None
        self._chart.show(spec=curves.spec(), label=f"Chart. {curves.summary}")
        self._table.show_table(curves.as_table())

    def show_table(self, table: Table) -> None:
        """Show a table."""
        self._summary.text = table.summary
        self._summary.classes(replace="summary" if table.rows else "summary empty")
        if not table.rows:
            self._clear()
            return
        if self._table is None:
            with self._body:
                self._table = DataTable()
        self._table.show_table(table)

    def _clear(self) -> None:
        if self._table is not None:
            self._body.clear()
            self._chart = self._table = None
