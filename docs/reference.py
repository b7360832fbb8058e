"""Generates reference pages from the code: pipeline file, commands, metrics, log events and HTTP.

`make reference` writes the pages into docs/pages. A test fails if they differ from the code.
"""

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer.main
from griffe import Docstring, DocstringParameter, DocstringSectionKind
from prometheus_client import Metric
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typer.cli import get_docs_for_click

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.learner.learner import StreamLearner
from streamboost.learner.schedule import Schedule
from streamboost.learner.working_set import WorkingSet
from streamboost.pipelines import shutdown
from streamboost.pipelines.cli.__main__ import app
from streamboost.pipelines.config.connectors.base import Section
from streamboost.pipelines.config.connectors.registry import section_classes
from streamboost.pipelines.config.learner import CHOICES, NOT_IN_A_FILE, STRATEGIES
from streamboost.pipelines.config.sections import Sections
from streamboost.pipelines.monitoring.metrics import Metrics
from streamboost.pipelines.service.app import create_app
from streamboost.pipelines.service.auth.settings import AuthSettings
from streamboost.pipelines.service.auth.users import Users
from streamboost.query.config import QueryConfig

__all__ = ["pages"]

Row = tuple[str, ...]

PARAMETERS: dict[str, tuple[Callable[..., Any], ...]] = {
    "committee": (SketchLogitBoostClassifier, StreamLearner),
    "working_set": (WorkingSet,),
    "schedule": (Schedule,),
    "query": (QueryConfig,),
}
"""Classes whose parameters are the keys of a section, by section."""
ONLY = {StreamLearner: {"label_lags", "calibrate", "experts"}}
"""Parameters of a class that have keys, if not all have."""
ROLES = {
    "source": "input",
    "labels": "labels",
    "predictions": "output",
    "requests": "requests",
    "dead_letters": "output",
}
"""Role of the connector of each section, a field of `ConnectorSections`."""


LEVELS = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
}
"""Level of a log call, by its method."""

FILE = """# Pipeline file

One TOML file describes a pipeline. Relative paths start at its folder, and `${NAME}` takes the
value of an environment variable. `streamboost init` writes one to start from, and
`streamboost check --show` shows yours with all defaults filled in. An unknown key is an error that
names the nearest one there is."""


def table(head: Row, rows: Iterable[Row]) -> str:
    """Return a table in Markdown."""
    lines, bar = [head, tuple("---" for _ in head), *rows], r"\|"
    return "\n".join(f"| {' | '.join(cell.replace('|', bar) for cell in line)} |" for line in lines)


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path and text of each generated page."""
    yield "reference/file.md", file_page()
    yield "reference/commands.md", commands_page()
    yield "reference/metrics.md", metrics_page()
    yield "reference/log-events.md", log_events_page()
    yield "reference/http.md", http_page()


def file_page() -> str:
    """Return the page on pipeline files."""
    parts = [FILE]
    for name, field in Sections.model_fields.items():
        key = field.alias or name
        model = (get_args(field.annotation) or (field.annotation,))[0]
        if get_origin(model) is dict and key not in PARAMETERS:
            key, model = f"{key}.NAME", get_args(model)[1]
        parts.append(f"## [{key}]")
        if key in ROLES:
            parts.extend(connectors(key))
        elif key in PARAMETERS:
            parts.append(parameters_of(key))
        else:
            parts.append(about(model) + "\n\n" + keys(model))
    return "\n\n".join(parts) + "\n"


def about(model: type[Section]) -> str:
    """Return the description of a section, as a sentence."""
    first = inspect.cleandoc(model.__doc__ or "").split("\n\n")[0]
    text = re.sub(r"^\[[\w.]+\](?: and \[[\w.]+\])*: ", "", first).replace("\n", " ")
    return text[:1].upper() + text[1:]


def connectors(key: str) -> Iterator[str]:
    """Yield a subsection for each connector that the section accepts."""
    for model in section_classes(ROLES[key]):
        (connector,) = get_args(model.model_fields["connector"].annotation)
        yield f'### [{key}] connector = "{connector}"\n\n{about(model)}\n\n{keys(model)}'


def keys(model: type[Section]) -> str:
    """Return a section's keys as a table."""
    rows = [
        (f"`{field.alias or name}`", kind(field.annotation), default(field), said(field))
        for name, field in model.model_fields.items()
        if name != "connector"
    ]
    return table(("key", "value", "default", "what it is"), rows)


def said(field: FieldInfo) -> str:
    """Return a key's description as a sentence."""
    text = field.description or ""
    return text[:1].upper() + text[1:] + "." * bool(text)


def kind(annotation: Any) -> str:
    """Return the type of a value in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{json.dumps(one)}`" for one in inner)
    if inner and origin in (list, dict):
        return "list" if origin is list else "table"
    if inner and hasattr(annotation, "__metadata__"):
        return kind(inner[0])
    if inner:
        return " or ".join(kind(one) for one in inner if one is not type(None))
    words = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return "table of " + ", ".join(f"`{name}`" for name in annotation.model_fields)
    return words.get(annotation, "text or number")


def default(field: FieldInfo) -> str:
    """Return the default of a key as text."""
    if field.is_required():
        return "must be given"
    return shown(None if field.default is PydanticUndefined else field.default)


def shown(value: Any) -> str:
    """Return a value in TOML syntax."""
    if isinstance(value, (str, int, float, bool)):
        return f"`{json.dumps(value)}`"
    return "`[]`" if value == [] else "none" if value is None or value == {} else f"`{value}`"


def parameters_of(key: str) -> str:
    """Return a table of the keys that are parameters of classes."""
    rows: list[Row] = []
    if "strategy" in CHOICES.get(key, ()):
        names = ", ".join(f'`"{one}"`' for one in STRATEGIES)
        about_it = f'What ranks records, one of {names}; `"all"` buys every label.'
        rows.append(("`strategy`", '`"margin"`', about_it))
    if "estimator" in CHOICES.get(key, ()):
        kinds = 'The kind of committee: `"sketch"` (`SketchLogitBoostClassifier`) or `"gamble"`.'
        rows.append(("`estimator`", '`"sketch"`', kinds))
    for owner in PARAMETERS[key]:
        shown_above = {name for name, *_ in rows}
        rows.extend(row for row in parameter_rows(owner) if row[0] not in shown_above)
    owners = " and ".join(f"`{owner.__name__}`" for owner in PARAMETERS[key])
    return (
        f'Keys are parameters of {owners}, by these names; the text `"none"` means None.\n\n'
        + table(("key", "default", "what it is"), rows)
    )


def parameter_rows(owner: Callable[..., Any]) -> Iterator[Row]:
    """Yield a row for each parameter that a pipeline file accepts."""
    signature = inspect.signature(owner).parameters
    for one in documented(owner):
        for name in one.name.split(", "):
            if name in NOT_IN_A_FILE or name not in ONLY.get(owner, {name}):
                continue
            value = signature[name].default
            yield f"`{name}`", shown(value), " ".join(one.description.split())


def documented(owner: Callable[..., Any]) -> list[DocstringParameter]:
    """Return the parameters that the docstring of a class describes."""
    text = inspect.getdoc(owner) or ""
    for section in Docstring(text, parser="numpy").parse(warnings=False):
        if section.kind is DocstringSectionKind.parameters:
            return list(section.value)
    raise ValueError(f"{owner} documents no parameters")


def commands_page() -> str:
    """Return the page on commands, as generated by Typer."""
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="streamboost")
    return text.replace("# `streamboost`", "# Commands", 1)


def metrics_page() -> str:
    """Return the page on the metrics of `/metrics`."""
    registry = Metrics(None).registry  # the registry reads nothing before a scrape
    labels = {
        name: getattr(one, "_labelnames", ())
        for one, names in registry._collector_to_names.items()
        for name in names
    }
    rows = [metric_row(one, labels.get(one.name, ())) for one in registry.collect()]
    return (
        "# Metrics\n\nWith a `port` in `[monitor]` the pipeline serves these to Prometheus under "
        "`/metrics`; [Monitoring and operations](../how-to/monitoring.md) says how to reach them. "
        "Those that begin with `process_` are there on Linux.\n\n"
        + table(("metric", "kind", "labels", "what it is"), sorted(rows))
        + "\n"
    )


def metric_row(metric: Metric, labels: Iterable[str]) -> Row:
    """Return a metric's row."""
    name = metric.name + "_total" * (metric.type == "counter")
    return f"`{name}`", metric.type, ", ".join(labels), metric.documentation


def log_events_page() -> str:
    """Return the page on the events of the log."""
    rows: dict[str, tuple[set[str], str]] = {}
    for event, level, message in sorted(logged_events()):
        if level != "debug":  # not written by the commands
            levels, _ = rows.setdefault(event, (set(), message))
            levels.add(level)
    return (
        "# Log events\n\nWith `--log-json`, each line of the log has an `event`, whose name stays "
        "the same when the message changes. Lines of other libraries have the event `other`. "
        "[Monitoring and operations](../how-to/monitoring.md#logs) says how to write the log.\n\n"
        + table(
            ("event", "level", "message"),
            (
                (f"`{name}`", ", ".join(sorted(levels)), text)
                for name, (levels, text) in rows.items()
            ),
        )
        + "\n"
    )


def logged_events() -> Iterator[tuple[str, str, str]]:
    """Yield event, level and message of each log call in the code."""
    root = Path(__file__).parents[1]
    for folder in ("streamboost", "connectors", "pipelines"):
        for path in sorted((root / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                owner, _, method = ast.unparse(getattr(node, "func", node)).rpartition(".")
                if isinstance(node, ast.Call) and owner.endswith("log") and method in LEVELS:
                    extra = next((one.value for one in node.keywords if one.arg == "extra"), None)
                    if extra is None:
                        raise ValueError(
                            f"{path}:{node.lineno} logs without extra={{'event': ...}}"
                        )
                    event = ast.literal_eval(extra)["event"]
                    yield event, LEVELS[method], log_message(node.args[0])


def log_message(template: ast.expr) -> str:
    """Return the message of a log call with an ellipsis for each value."""
    names = {"WAITING": shutdown.WAITING, "RECOVERED": shutdown.RECOVERED}
    texts = [
        str(names[one.id] if isinstance(one, ast.Name) else one.value)
        for one in ast.walk(template)
        if getattr(one, "id", None) in names or isinstance(getattr(one, "value", None), str)
    ]
    found = re.sub(r"%[-.0-9]*[a-z]", "…", " / ".join(texts))
    return "what failed, and the remedy" if found == "…" else found


def http_page() -> str:
    """Return the page on the routes of `streamboost serve`."""
    spec = create_app([], AuthSettings(token=""), Users.__new__(Users)).openapi()
    rows = [
        (f"`{method.upper()}`", f"`{path}`", way.get("description") or way.get("summary", ""))
        for path, ways in spec["paths"].items()
        for method, way in ways.items()
    ]
    return (
        "# HTTP\n\n`streamboost serve` has an HTTP API for programs under `/api/v1`. Bodies and "
        "answers are described in `/api/v1/openapi.json`; requests carry a token or a login's "
        "cookie, see [Label in a browser](../start/labelling.md).\n\n"
        + table(
            ("method", "path", "what it does"), ((a, b, " ".join(c.split())) for a, b, c in rows)
        )
        + "\n"
    )


if __name__ == "__main__":
    for name, text in pages():
        (Path(__file__).parent / "pages" / name).write_text(text, encoding="utf-8")
