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
from nicegui.events import GenericEventArguments

from streamboost.pipelines.dashboard.charts import Curves
from streamboost.pipelines.dashboard.tables import Cell, Table
from streamboost.pipelines.status.formatting import escape_bidi, with_no_break_spaces

_CELL = tuple(field.name for field in fields(Cell))
STATIC = Path(__file__).parent / "static"
ECHARTS = Path(nicegui.elements.echart.__file__).parent / "dist"


def event_fields(event: GenericEventArguments) -> Mapping[str, Any]:
    """Return the fields of a browser's event; an empty mapping if the event is not an object."""
    return event.args if isinstance(event.args, dict) else {}


class Tag(TextElement):
    """An HTML element with a text and attributes; write _ for - in attribute names.

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

    def set_attributes(self, **attributes: Any) -> None:
        """Change attributes; send an update to the browser only if a value differs."""
        changed = {name.replace("_", "-"): value for name, value in attributes.items()}
        if any(self._props.get(name) != value for name, value in changed.items()):
            self._props.update(changed)
            self.update()

    def _text_to_model_text(self, text: str) -> None:
        # Text from records is in a `bdi` element and keeps its spaces.
        super()._text_to_model_text(
            escape_bidi(text if self.tag == "bdi" else with_no_break_spaces(text))
        )


def add_heading(title: str, id: str, about: str = "") -> None:
    """Add the heading of a panel; the text `about` is shown after a click on an "i"."""
    with Tag("div", classes="heading"):
        Tag("h2", title, id=id)
        if about:
            with Tag("details", classes="info"):
                Tag("summary", "i", aria_label=f"About: {title}")
                Tag("p", about)


class BidiText(Tag):
    """A text that contains names from records, each in a separate `bdi` element."""

    def __init__(self, tag: str, classes: str = "", **attributes: Any) -> None:
        super().__init__(tag, "", classes, **attributes)
        self._said: tuple[str, ...] = ()

    def show_text(self, text: str, *names: str) -> None:
        """Show `text`, with each ``{}`` replaced by one of `names`."""
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
    """Base class of Vue components that keeps large properties outside of NiceGUI's properties.

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


class BatchedUpdates(_Component, component=STATIC / "changes.js"):
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
        ui.on("missed", self._resend_all)

    def register(self, component: _Component) -> None:
        """Register `component`, to send it in full if the browser missed a message."""
        self._parts.add(component)

    def queue_change(self, component: _Component, change: Any) -> None:
        """Queue a change of `component` for the next `flush`."""
        self._changes[component.id] = change

    def _resend_all(self) -> None:
        for part in self._parts:
            part.update()

    def flush(self) -> None:
        """Send the queued changes to the browser as one message."""
        if self._changes:
            self._number += 1
            changes, self._changes = self._changes, {}
            self.show(said=[self._number, changes])


class _BatchedComponent(_Component):
    """A component that sends only its changes, through `changes`; if None, it is sent in full."""

    def __init__(self, changes: BatchedUpdates | None = None) -> None:
        super().__init__()
        self._changes = changes
        if changes is not None:
            changes.register(self)

    def _queue_change(self, change: Any, **properties: Any) -> None:
        """Set `properties`, and queue `change`, which makes the same change in the browser."""
        if self._changes is None:
            self.show(**properties)
            return
        self._shown |= properties
        self._changes.queue_change(self, change)


class Chart(_BatchedComponent, component=STATIC / "chart.js", esm={"nicegui-echart": str(ECHARTS)}):
    """A chart of curves over time. The user can open a table of the same values."""

    def show_curves(self, title: str, curves: Curves, axis_ends: Sequence[int] = ()) -> None:
        """Show `curves`; `axis_ends` are the first and last time of the axis in milliseconds."""
        before: dict[str, Any] = self._shown.get("spec") or {}
        marks = [asdict(group) for group in curves.marks]
        spec: dict[str, Any] = {
            "frame": curves.options,
            "rows": curves.data_rows,
            "marks": marks,
            "ends": list(axis_ends),
        }
        if before.get("frame") != spec["frame"]:
            self.show(spec=spec, label=f"Chart: {title}")
            return
        change = chart_spec_change(before, spec)
        if change:
            self._queue_change(change, spec=spec)


def chart_spec_change(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes from one chart specification to another, in the format of chart.js.

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


class DataTable(_BatchedComponent, component=STATIC / "table.js"):
    """An HTML table; only changed cells are sent to the browser."""

    def show_table(self, table: Table, rows: list[list[Any]] | None = None) -> None:
        """Show `table`; `rows` are the result of `json_cells`, computed here if None."""
        columns = [
            {"text": escape_bidi(column.text), "kind": column.kind} for column in table.columns
        ]
        rows = json_cells(table.rows) if rows is None else rows
        before: list[list[Any]] = self._shown.get("rows") or []
        if len(before) != len(rows) or self._shown.get("columns") != columns:
            self.show(caption=table.caption, columns=columns, rows=rows)
            return
        changed = changed_cells(before, rows)
        if changed:
            self._queue_change({"cells": changed}, rows=rows)


def changed_cells(before: Sequence[Sequence[Any]], after: Sequence[Sequence[Any]]) -> list[Any]:
    """Return [row, column, change] of each cell that differs, in the format of table.js.

    The change is the new cell. If the old and the new cell are dicts, the change has only the keys
    that differ; None removes a key.
    """
    return [
        [i, j, _cell_change(old[j] if j < len(old) else None, cell)]
        for i, (old, new) in enumerate(zip(before, after, strict=True))
        for j, cell in enumerate(new)
        if j >= len(old) or old[j] != cell
    ]


def _cell_change(old: Any, new: Any) -> Any:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    return {key: new.get(key) for key in old | new if old.get(key) != new.get(key)}


def show_table(table: Table) -> None:
    """Add a table to the page, if it has rows."""
    if table.rows:
        DataTable().show_table(table)


def show_summary_and_table(table: Table) -> None:
    """Add a table's summary to the page, and the table if it has rows."""
    Tag("p", table.summary, "summary" if table.rows else "summary empty")
    show_table(table)


class TimeRangeSelector(_Component, component=STATIC / "spans.js"):
    """Control that selects the time range of all charts of a page."""


class ThemeSelector(_Component, component=STATIC / "theme.js"):
    """Control that selects the light or dark theme."""


class ConnectionNotice(_Component, component=STATIC / "connection.js"):
    """Notice that the page has no websocket, such as behind a proxy that forwards none."""


class StatusLine(_Component, component=STATIC / "status.js"):
    """Status line of a pipeline. The browser also shows when the server stops responding."""


class AnchorRedirects(_Component, component=STATIC / "moved.js"):
    """Redirects from the #anchor of a panel that has moved to the page that now has the panel."""


class ResendEditor(_Component, component=STATIC / "resend.js"):
    """Editor to correct the text of a dead letter and to resend the message."""


class AnsweredTable(_Component, component=STATIC / "answered.js"):
    """Table of an annotator's answers, each with a button to change the answer."""


class AnswerButtons(_Component, component=STATIC / "answers.js"):
    """Buttons and keyboard keys for the classes of a label request."""


def json_cells(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the rows of a table for JSON: each cell as a string or a dict."""
    return [
        [
            with_no_break_spaces(escape_bidi(value))
            if isinstance(value, str)
            else _json_cell(value)
            for value in row
        ]
        for row in rows
    ]


def _json_cell(cell: Cell) -> dict[str, Any]:
    # asdict copies deeply and is slow: most of the CPU time of open dashboards is spent here.
    found: dict[str, Any] = {name: getattr(cell, name) for name in _CELL}
    found = {name: value for name, value in found.items() if value is not None}
    found |= {
        name: with_no_break_spaces(escape_bidi(found[name]))
        for name in ("text", "note")
        if name in found
    }
    found |= {name: round(found[name], 2) for name in ("bar", "shade") if name in found}
    if cell.scale is not None:
        found["scale"] = asdict(cell.scale)
    return found
