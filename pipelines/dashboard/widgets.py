"""HTML elements of the pages, and custom NiceGUI components for charts, tables and controls.

Text from records is wrapped in `bdi`, and its bidirectional control characters are made visible.
Text of a record therefore cannot reorder the text around it.

NiceGUI's own charts and HTML boxes compile templates in the browser, which a strict content
security policy forbids. The components here use render functions.
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

from streamboost.pipelines.dashboard.charts import Curves
from streamboost.pipelines.dashboard.tables import Cell, Table
from streamboost.pipelines.status.formatting import visible_text, with_no_break_spaces

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
STATIC = Path(__file__).parent / "static"
ECHARTS = Path(nicegui.elements.echart.__file__).parent / "dist"


class Tag(TextElement):
    """An HTML element with a text and `attributes`, with _ for - in their names.

    The name of an attribute that is a Python keyword ends in _.
    """

    def __init__(self, tag: str, text: str = "", classes: str = "", **attributes: Any) -> None:
        super().__init__(tag=tag, text=text)
        # NiceGUI notifies observers of each change, and pages have hundreds of elements.
        if classes:
            self.classes(classes)
        if attributes:
            self._props.update(
                {name.strip("_").replace("_", "-"): value for name, value in attributes.items()}
            )

    def set(self, **attributes: Any) -> None:
        """Change attributes; send an update to the browser only if a value differs."""
        changed = {name.replace("_", "-"): value for name, value in attributes.items()}
        if any(self._props.get(name) != value for name, value in changed.items()):
            self._props.update(changed)
            self.update()

    def _text_to_model_text(self, text: str) -> None:
        # Text from records is in a `bdi` element and keeps its spaces.
        super()._text_to_model_text(
            visible_text(text if self.tag == "bdi" else with_no_break_spaces(text))
        )


class Sentence(Tag):
    """A text with names from records in it, each in an own `bdi` element."""

    def __init__(self, tag: str, classes: str = "", **attributes: Any) -> None:
        super().__init__(tag, "", classes, **attributes)
        self._said: tuple[str, ...] = ()

    def say(self, text: str, *names: str) -> None:
        """Show `text`, with each of `names` in the place of a ``{}``."""
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
    """Base class of the Vue components, with their large properties stored outside of NiceGUI's.

    NiceGUI observes each value in its properties and sends all of them whenever one changes. The
    properties given to `show` are added only when the element is serialized.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: dict[str, Any] = {}

    def show(self, **properties: Any) -> None:
        """Set `properties`; send an update to the browser only if a value differs."""
        if any(self._shown.get(name) != value for name, value in properties.items()):
            self._shown |= properties
            self.update()

    def _to_dict(self) -> dict[str, Any]:
        found = super()._to_dict()
        return found | {"props": {**found.get("props", {}), **self._shown}}


class Changes(_Component, component=STATIC / "changes.js"):
    """Batched updates of charts and tables, sent to the browser as one message.

    If the browser missed a message, for example after a lost connection, it requests all again.
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
        """Register `part` to be sent in full after a missed message."""
        self._parts.add(part)

    def put(self, part: _Component, change: Any) -> None:
        """Queue a change of `part` for the next `flush`."""
        self._changes[part.id] = change

    def _again(self) -> None:
        for part in self._parts:
            part.update()

    def flush(self) -> None:
        """Send the queued changes."""
        if self._changes:
            self._number += 1
            changes, self._changes = self._changes, {}
            self.show(said=[self._number, changes])


class _Followed(_Component):
    """A component that sends changes through `Changes`, or in full without one."""

    def __init__(self, changes: Changes | None = None) -> None:
        super().__init__()
        self._changes = changes
        if changes is not None:
            changes.follow(self)

    def _change(self, change: Any, **properties: Any) -> None:
        """Queue a `change` that turns the properties into the given ones."""
        if self._changes is None:
            self.show(**properties)
            return
        self._shown |= properties
        self._changes.put(self, change)


class Chart(_Followed, component=STATIC / "chart.js", esm={"nicegui-echart": str(ECHARTS)}):
    """A chart of curves over time, with the same values as a table to open."""

    def show_curves(self, title: str, curves: Curves, ends: Sequence[int] = ()) -> None:
        """Show `curves`; `ends` are the first and last time of the axis."""
        before: dict[str, Any] = self._shown.get("spec") or {}
        marks = [asdict(group) for group in curves.marks]
        spec: dict[str, Any] = {
            "frame": curves.options,
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
    """Return the difference of two chart specs of the same frame, in the format of chart.js.

    The axis is left out if its start is unchanged and its end is the newest row.
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
        """Show `table`; `rows` are its `cells`, computed here if None."""
        columns = [
            {"text": visible_text(column.text), "kind": column.kind} for column in table.columns
        ]
        rows = cells(table.rows) if rows is None else rows
        before: list[list[Any]] = self._shown.get("rows") or []
        if len(before) != len(rows) or self._shown.get("columns") != columns:
            self.show(caption=table.caption, columns=columns, rows=rows)
            return
        changed = changed_cells(before, rows)
        if changed:
            self._change({"cells": changed}, rows=rows)


def changed_cells(before: Sequence[Sequence[Any]], after: Sequence[Sequence[Any]]) -> list[Any]:
    """Return row, column and change of each cell that differs, in the format of table.js.

    For a cell with more than a text, the change holds the new values by key; None removes a key.
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
    """Show a table's summary sentence, and the table if it has rows."""
    Tag("p", table.summary, "summary" if table.rows else "summary empty")
    show_table(table)


class Spans(_Component, component=STATIC / "spans.js"):
    """Control that selects the time range of all charts of a page."""


class Theme(_Component, component=STATIC / "theme.js"):
    """Control that selects the light or dark theme."""


class StatusLine(_Component, component=STATIC / "status.js"):
    """Status line of a pipeline, which shows in the browser when `serve` stops responding."""


class Resend(_Component, component=STATIC / "resend.js"):
    """Editor for a dead letter, to fix its text and send it again."""


class AnsweredTable(_Component, component=STATIC / "answered.js"):
    """Table of the given answers, with a button to change each."""


class Answers(_Component, component=STATIC / "answers.js"):
    """Buttons and keys for the classes of a request."""


def cells(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the rows of a table as JSON can hold them."""
    return [
        [
            with_no_break_spaces(visible_text(value)) if isinstance(value, str) else _cell(value)
            for value in row
        ]
        for row in rows
    ]


def _cell(cell: Cell) -> dict[str, Any]:
    # asdict copies deeply and is slow: most of the CPU time of open dashboards is spent here.
    found: dict[str, Any] = {name: getattr(cell, name) for name in _CELL}
    found = {name: value for name, value in found.items() if value is not None}
    found |= {
        name: with_no_break_spaces(visible_text(found[name]))
        for name in ("text", "note")
        if name in found
    }
    found |= {name: round(found[name], 2) for name in ("bar", "shade") if name in found}
    if cell.scale is not None:
        found["scale"] = asdict(cell.scale)
    return found
