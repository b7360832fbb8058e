"""The elements that pages are made of: plain HTML, and four small components of our own.

Text that came from elsewhere stands in `bdi`, and marks in it that turn the direction of writing
are shown as such: whatever a record holds, what stands around it keeps its place.

NiceGUI's own charts and HTML boxes compile templates in the browser, which a strict content
security policy forbids; these render by functions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any
from weakref import WeakSet

import nicegui.elements.echart
from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from streamboost.pipelines.service.pages.charts import Curves
from streamboost.pipelines.service.pages.tables import Cell, Table
from streamboost.pipelines.status.formatting import unbroken, visible

__all__ = [
    "STATIC",
    "AnsweredTable",
    "Answers",
    "Changes",
    "Chart",
    "DataTable",
    "Resend",
    "Sentence",
    "Spans",
    "StatusLine",
    "Tag",
    "Theme",
    "cells",
    "show_table",
    "show_told",
]

_CELL = tuple(field.name for field in fields(Cell))
STATIC = Path(__file__).parents[1] / "static"
ECHARTS = Path(nicegui.elements.echart.__file__).parent / "dist"


class Tag(TextElement):
    """An HTML element with a text; `attributes` are its own, with _ for - in their names.

    One that is also a word of Python ends in _.
    """

    def __init__(self, tag: str, text: str = "", classes: str = "", **attributes: Any) -> None:
        super().__init__(tag=tag, text=text)
        # Each change is told to those who watch, and pages have hundreds of elements.
        if classes:
            self.classes(classes)
        if attributes:
            self._props.update(
                {name.strip("_").replace("_", "-"): value for name, value in attributes.items()}
            )

    def set(self, **attributes: Any) -> None:
        """Change attributes, telling the browser only where they differ."""
        changed = {name.replace("_", "-"): value for name, value in attributes.items()}
        if any(self._props.get(name) != value for name, value in changed.items()):
            self._props.update(changed)
            self.update()

    def _text_to_model_text(self, text: str) -> None:
        # What comes from elsewhere stands in a `bdi`, and stays as it is.
        super()._text_to_model_text(visible(text if self.tag == "bdi" else unbroken(text)))


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
    """A component that shows what it is given.

    That is kept here beside its other properties, which NiceGUI watches one by one, and sends whole
    whenever one changes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, Any] = {}

    def show(self, **properties: Any) -> None:
        """Give it `properties`, telling the browser only where they differ."""
        if any(self._shown.get(name) != value for name, value in properties.items()):
            self._shown |= properties
            self.update()

    def _to_dict(self) -> dict[str, Any]:
        found = super()._to_dict()
        return found | {"props": {**found.get("props", {}), **self._shown}}


class Changes(_Component, component=STATIC / "changes.js"):
    """Tells the browser what changed of charts and tables, all at once.

    Whoever missed some of it, as by a lost connection, asks for everything again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._changes: dict[int, Any] = {}
        self._parts: WeakSet[_Component] = WeakSet()
        self.show(said=[0, {}])
        # Not its own event: what an element listens to goes along with each of its updates.
        ui.on("missed", self._again)

    def follow(self, part: _Component) -> None:
        """Have `part` sent again to whoever missed something."""
        self._parts.add(part)

    def put(self, part: _Component, change: Any) -> None:
        """Have `part` told of a change with the next `flush`."""
        self._changes[part.id] = change

    def _again(self) -> None:
        for part in self._parts:
            part.update()

    def flush(self) -> None:
        """Send what changed."""
        if self._changes:
            self._number += 1
            changes, self._changes = self._changes, {}
            self.show(said=[self._number, changes])


class _Followed(_Component):
    """A component that is told of changes, if there is somebody to tell it."""

    def __init__(self, changes: Changes | None = None) -> None:
        super().__init__()
        self._changes = changes
        if changes is not None:
            changes.follow(self)

    def _change(self, change: Any, **properties: Any) -> None:
        """Tell the browser of a `change`, by which its properties become those given."""
        if self._changes is None:
            self.show(**properties)
            return
        self._shown |= properties
        self._changes.put(self, change)


class Chart(_Followed, component=STATIC / "chart.js", esm={"nicegui-echart": str(ECHARTS)}):
    """Curves over time, and the same as a table to be opened."""

    def show_curves(self, title: str, curves: Curves, ends: Sequence[int] = ()) -> None:
        """Show `curves`, the axis reaching from the first to the second of `ends`."""
        before: dict[str, Any] = self._shown.get("spec") or {}
        marks = [asdict(group) for group in curves.marks]
        spec: dict[str, Any] = {
            "frame": curves.frame,
            "rows": curves.rows,
            "marks": marks,
            "ends": list(ends),
        }
        if before.get("frame") != spec["frame"]:
            self.show(spec=spec, label=f"Chart: {title}")
            return
        change = change_of(before, spec)
        if change:
            self._change(change, spec=spec)


def change_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return what turns a chart's spec into another of the same frame, as chart.js takes it.

    An axis that ends with its newest row and begins where it did needs no word.
    """
    old, new = ({row[0]: row for row in one["rows"]} for one in (before, after))
    change: dict[str, Any] = {}
    if gone := [time for time in old if time not in new]:
        change["gone"] = gone
    if put := [row for time, row in new.items() if old.get(time) != row]:
        change["put"] = put
    if after["marks"] != before["marks"]:
        change["marks"] = after["marks"]
    followed = [*before["ends"][:1], max(new, default=0)] if change else before["ends"]
    if after["ends"] != followed:
        change["ends"] = after["ends"]
    return change


class DataTable(_Followed, component=STATIC / "table.js"):
    """A table."""

    def show_table(self, table: Table, rows: list[list[Any]] | None = None) -> None:
        """Show `table`, whose `cells` are `rows`; None: they are made of it."""
        columns = [{"text": visible(column.text), "kind": column.kind} for column in table.columns]
        rows = cells(table.rows) if rows is None else rows
        before: list[list[Any]] = self._shown.get("rows") or []
        if len(before) != len(rows) or self._shown.get("columns") != columns:
            self.show(caption=table.caption, columns=columns, rows=rows)
            return
        changed = changed_cells(before, rows)
        if changed:
            self._change({"cells": changed}, rows=rows)


def changed_cells(before: Sequence[Sequence[Any]], after: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the row, the column and what differs of each cell that does, as table.js takes it.

    Of a cell that has more than a text that is what to put into it: None takes away.
    """
    return [
        [i, j, _changed(old[j] if j < len(old) else None, cell)]
        for i, (old, new) in enumerate(zip(before, after, strict=True))
        for j, cell in enumerate(new)
        if j >= len(old) or old[j] != cell
    ]


def _changed(old: Any, new: Any) -> Any:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    return {key: new.get(key) for key in old | new if old.get(key) != new.get(key)}


def show_table(table: Table) -> None:
    """Show a table, if it has rows."""
    if table.rows:
        DataTable().show_table(table)


def show_told(table: Table) -> None:
    """Show what a table comes to in a sentence, and it, if it has rows."""
    Tag("p", table.summary, "summary" if table.rows else "summary empty")
    show_table(table)


class Spans(_Component, component=STATIC / "spans.js"):
    """Chooses the stretch of time that all charts of a page show."""


class Theme(_Component, component=STATIC / "theme.js"):
    """Chooses light or dark."""


class StatusLine(_Component, component=STATIC / "status.js"):
    """How a pipeline stands, in one line that says by itself when `serve` is silent."""


class Resend(_Component, component=STATIC / "resend.js"):
    """A message to be mended and sent again."""


class AnsweredTable(_Component, component=STATIC / "answered.js"):
    """What was answered, each of which may be changed."""


class Answers(_Component, component=STATIC / "answers.js"):
    """The answers to choose from."""


def cells(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the rows of a table as JSON can hold them."""
    return [
        [unbroken(visible(value)) if isinstance(value, str) else _cell(value) for value in row]
        for row in rows
    ]


def _cell(cell: Cell) -> dict[str, Any]:
    # Not asdict, which copies deeply: this is most of what `serve` does for open dashboards.
    found: dict[str, Any] = {name: getattr(cell, name) for name in _CELL}
    found = {name: value for name, value in found.items() if value is not None}
    found |= {name: unbroken(visible(found[name])) for name in ("text", "note") if name in found}
    found |= {name: round(found[name], 2) for name in ("bar", "shade") if name in found}
    if cell.scale is not None:
        found["scale"] = asdict(cell.scale)
    return found
