"""Terminal output of the demo: a progress bar or periodic lines, and a table of results."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from streamboost.pipelines.demo import compare as demo
from streamboost.pipelines.status.forecast import forecast_lines
from streamboost.pipelines.status.formatting import duration_text

HEADINGS = ("strategy", "labels", "accuracy", "2nd half", "balanced", "time", "records/s")

LEGEND = "2nd half: accuracy on the later half of the records;\nbalanced: mean over the classes"
NO_FIGURE = "\N{EN DASH}"
NARROW = 100
"""Terminal width below which there is no progress bar."""

LINE_EVERY, LINES = 500, 20
"""Without a terminal: minimum records between two lines, and maximum number of lines of a run."""


SHORTEST = 5.0
"""Minimum seconds left of a run for which a line says the time left."""


@contextmanager
def progress_display(
    console: Console, n_runs: int = 1, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[demo.RunProgress], None]]:
    """Context manager: yields a function that shows the progress of `n_runs` runs on `console`.

    The time left of a run follows from its records so far, by `clock` in seconds.
    """
    if not console.is_terminal:
        printed: dict[str, int] = {}
        began: dict[str, float] = {}

        def print_progress(progress: demo.RunProgress) -> None:
            name, now = progress.strategy, clock()
            seconds = now - began.setdefault(name, now)
            left = seconds * (progress.of - progress.records) / max(progress.records, 1)
            number = f" (run {len(began)} of {n_runs})" * (n_runs > 1)
            ending = f", about {duration_text(float(f'{left:.2g}'))} left" * (left >= SHORTEST)
            _print_progress_if_due(console, progress, printed, number, ending)

        yield print_progress
        return
    columns = (
        TextColumn("{task.description:<6}"),
        *([BarColumn(bar_width=24)] if console.width >= NARROW else []),
        TextColumn("{task.completed:>5,.0f} of {task.total:,.0f} records"),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console) as bar:

        def show_progress(progress: demo.RunProgress) -> None:
            name = display_name(progress.strategy)
            if name not in tasks:
                number = f"{len(tasks) + 1}/{n_runs} {name}" if n_runs > 1 else name
                tasks[name] = bar.add_task(number, total=progress.of, state="")
            bar.update(tasks[name], completed=progress.records, state=_format_progress(progress))

        yield show_progress


def _print_progress_if_due(
    console: Console,
    progress: demo.RunProgress,
    printed_record_counts: dict[str, int],
    number: str,
    ending: str,
) -> None:
    """Print a progress line if enough records were added since the strategy's last line.

    `number` follows the strategy's name, and `ending` is the end of the line.
    `printed_record_counts` has the record count of each strategy at its last line; it is updated.
    """
    every = max(LINE_EVERY, progress.of // LINES)
    before = printed_record_counts.get(progress.strategy, 0)
    is_last = before < progress.records == progress.of
    if progress.records // every > before // every or is_last:
        printed_record_counts[progress.strategy] = progress.records
        console.print(
            f"{display_name(progress.strategy)}{number}: {progress.records:,} of "
            f"{progress.of:,} records, {_format_progress(progress)}{ending}"
        )


def _format_progress(progress: demo.RunProgress) -> str:
    labels = "1 label" if progress.labels == 1 else f"{progress.labels:,} labels"
    return f"accuracy {progress.accuracy:6.1%}, {labels} bought, {progress.trees} trees"


def display_name(strategy: str) -> str:
    """Return a strategy's name for display, such as "repeat last" for "repeat_last"."""
    return strategy.replace("_", " ")


def results_table(rows: Sequence[demo.StrategyResult], records: str = demo.DATASET) -> Table:
    """Return the results as a `rich` table, with `records` in its title."""
    title = Text(f"{records}, every record predicted on arrival")
    made = Table(
        title=title,
        title_justify="left",
        caption=LEGEND,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    made.add_column("strategy", no_wrap=True)
    for heading in HEADINGS[1:]:
        made.add_column(heading, justify="right")
    for row in rows:
        made.add_row(*result_cells(row))
    return made


def forecast_text(rows: Sequence[demo.StrategyResult]) -> list[str]:
    """Return sentences on what more labels would bring to the first strategy that selects labels.

    Empty if there is no such strategy.
    """
    for row in rows:
        if row.strategy != "repeat_last" and row.labels < row.records:
            title = f"{display_name(row.strategy)}, {row.labels:,} labels; 90 % intervals."
            return [title, *forecast_lines(row.forecast)]
    return []


def result_cells(row: demo.StrategyResult) -> tuple[str, ...]:
    """Return the result of one strategy as table cells, in the order of `HEADINGS`."""
    ran = row.strategy != "repeat_last"  # this baseline has no run of its own
    return (
        display_name(row.strategy),
        f"{row.labels:,}",
        f"{row.accuracy:.1%}",
        f"{row.accuracy_second_half:.1%}",
        f"{row.balanced_accuracy:.1%}",
        f"{row.seconds:.1f} s" if ran else NO_FIGURE,
        f"{row.records_per_second:,.0f}" if ran else NO_FIGURE,
    )
