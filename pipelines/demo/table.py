"""Terminal output of the demo: a progress bar or periodic lines, and a table of results."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from streamboost.pipelines.demo import compare as demo

__all__ = ["HEADINGS", "display_name", "progress_display", "result_cells", "results_table"]

HEADINGS = ("strategy", "labels", "accuracy", "2nd half", "balanced", "seconds", "records/s")

LEGEND = "2nd half: accuracy on the later half of the records;\nbalanced: mean over the classes"
NO_FIGURE = "\N{EN DASH}"
NARROW = 100
"""Terminal width below which there is no progress bar."""

LINE_EVERY, LINES = 500, 20
"""Without a terminal: minimum records between two lines, and maximum number of lines of a run."""


@contextmanager
def progress_display(console: Console) -> Iterator[Callable[[demo.RunProgress], None]]:
    """Context manager: yields a function that shows the progress of a run on `console`."""
    if not console.is_terminal:
        printed: dict[str, int] = {}
        yield lambda progress: _print_progress_if_due(console, progress, printed)
        return
    columns = (
        TextColumn("{task.description:<6}"),
        *([BarColumn(bar_width=24)] if console.width >= NARROW else []),
        TextColumn("{task.completed:>5,.0f} of {task.total:,.0f} records"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console) as bar:

        def show_progress(progress: demo.RunProgress) -> None:
            name = display_name(progress.strategy)
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=progress.of, state="")
            bar.update(tasks[name], completed=progress.records, state=_format_progress(progress))

        yield show_progress


def _print_progress_if_due(
    console: Console, progress: demo.RunProgress, printed_record_counts: dict[str, int]
) -> None:
    """Print a progress line if enough records were added since the strategy's last line.

    `printed_record_counts` has the record count of the last line, keyed by strategy; it is updated.
    """
    every = max(LINE_EVERY, progress.of // LINES)
    before = printed_record_counts.get(progress.strategy, 0)
    is_last = before < progress.records == progress.of
    if progress.records // every > before // every or is_last:
        printed_record_counts[progress.strategy] = progress.records
        console.print(
            f"{display_name(progress.strategy)}: {progress.records:,} of {progress.of:,} records, "
            f"{_format_progress(progress)}"
        )


def _format_progress(progress: demo.RunProgress) -> str:
    labels = "1 label" if progress.labels == 1 else f"{progress.labels:,} labels"
    return f"accuracy {progress.accuracy:6.1%}, {labels} bought, {progress.trees} trees"


def display_name(strategy: str) -> str:
    """Return a strategy's name for display, such as "repeat last" for "repeat_last"."""
    return strategy.replace("_", " ")


def results_table(rows: Sequence[demo.StrategyResult], records: str = demo.DATASET) -> Table:
    """Return the results as a table of rich, with `records` in its title."""
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


def result_cells(row: demo.StrategyResult) -> tuple[str, ...]:
    """Return the result of one strategy as table cells, in the order of `HEADINGS`."""
    ran = row.strategy != "repeat_last"  # this baseline has no run of its own
    return (
        display_name(row.strategy),
        f"{row.labels:,}",
        f"{row.accuracy:.1%}",
        f"{row.accuracy_second_half:.1%}",
        f"{row.balanced_accuracy:.1%}",
        f"{row.seconds:.1f}" if ran else NO_FIGURE,
        f"{row.records_per_second:,.0f}" if ran else NO_FIGURE,
    )
