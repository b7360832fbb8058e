"""How the demo looks: a progress bar on a terminal, a line now and then elsewhere, a table."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from streamboost.pipelines import demo

__all__ = ["following", "table"]

LINE_EVERY = 500
"""Records between two lines where there is no terminal to draw on."""


@contextmanager
def following(console: Console) -> Iterator[Callable[[demo.Progress], None]]:
    """Give a function that shows where the runs stand, on `console`."""
    if not console.is_terminal:
        yield lambda progress: _print_some(console, progress)
        return
    columns = (
        TextColumn("{task.description:<7}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:>5,.0f} of {task.total:,.0f} records"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console) as bar:

        def show(progress: demo.Progress) -> None:
            name = progress.strategy
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=progress.of, state="")
            bar.update(tasks[name], completed=progress.records, state=_state(progress))

        yield show


def _print_some(console: Console, progress: demo.Progress) -> None:
    batch = 10
    if progress.records % LINE_EVERY < batch or progress.records == progress.of:
        console.print(
            f"{progress.strategy}: {progress.records:,} of {progress.of:,} records, "
            f"{_state(progress)}"
        )


def _state(progress: demo.Progress) -> str:
    return (
        f"accuracy {progress.accuracy:6.1%}, {progress.labels:,} labels bought, "
        f"{progress.trees} trees"
    )


def table(rows: Sequence[demo.Row]) -> Table:
    """Return the rows as a table."""
    titles = {
        "margin": "margin queries",
        "random": "random queries",
        "repeat_last": "repeat last",
        "all": "every label",
    }
    title = "ImageSegments, every record predicted on arrival"
    made = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    made.add_column("strategy", no_wrap=True)
    for heading in ("labels", "accuracy", "2nd half", "balanced", "seconds", "records/s"):
        made.add_column(heading, justify="right")
    for row in rows:
        made.add_row(
            titles[row.strategy],
            f"{row.labels:,}",
            f"{row.accuracy:.1%}",
            f"{row.accuracy_second_half:.1%}",
            f"{row.balanced_accuracy:.1%}",
            f"{row.seconds:.1f}",
            f"{row.records_per_second:,.0f}",
        )
    return made
