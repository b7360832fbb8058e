"""Command `streamboost demo`: compares query strategies, or runs a live pipeline in a browser."""

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamboost.errors import ConfigurationError
from streamboost.escaping import escape_line
from streamboost.pipelines.cli.options import print_block, print_lines, stop_on_signals

if TYPE_CHECKING:
    from streamboost.pipelines.demo.compare import LabelledStream, StrategyResult
    from streamboost.pipelines.demo.curve import LearningCurves

WIDEST = 100
"""Maximum width of a chart in columns."""


class Strategy(StrEnum):
    """Query strategies and baselines that the demo compares."""

    margin = "margin"
    random = "random"
    repeat_last = "repeat_last"
    all = "all"


def demo(
    records: Annotated[
        Path | None,
        typer.Argument(
            help="A file of labelled records: JSON Lines or CSV, also .gz, or Parquet.",
            show_default=False,
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="The field that holds the label, such as kind or o.kind.", show_default=False
        ),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(
            help="The field that holds the record id. By default, the line number is the id.",
            show_default=False,
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="The sentence encoder of the texts: a folder with an ONNX model, or "
            "module:function.",
            show_default=False,
        ),
    ] = None,
    predicted: Annotated[
        str | None,
        typer.Option(
            help="The field with the prediction of another model, which is evaluated: a label, or "
            "a map or list of class probabilities.",
            show_default=False,
        ),
    ] = None,
    strategy: Annotated[Strategy | None, typer.Option(help="Run only this strategy.")] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            help="Set the share of records whose label may be requested. Default: 0.1, 0.05 with "
            "--serve, or 0.02 with --predicted.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Set the random seed of the learner. It does not affect the order.")
    ] = 0,
    state: Annotated[
        Path | None, typer.Option(help="Store log and state in this folder.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the result to this HTML file.", show_default=False)
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON object per row.")
    ] = False,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Run until stopped, with pages for labelling in a browser."),
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Set the port of --serve. 0 selects a free port.")
    ] = 0,
) -> None:
    """Compare query strategies on real records.

    With `demo FILE --label FIELD`, the records are your own, and a chart shows accuracy over labels
    bought.

    With `--predicted FIELD`, the demo evaluates the predictions of another model in your records,
    from few labels. It shows the accuracy that all labels give, and when a drop was reported.

    With --serve, the demo streams handwritten digits until it is stopped, and most requests are
    left for you. With --state, the next demo continues from the same state.
    """
    _refuse_incomplete_records_options(records, label, id, encoder, predicted)
    if predicted is not None and records is not None and label is not None:
        if strategy or html or serve:
            raise ConfigurationError(
                "demo --predicted evaluates predictions, and compares no strategies: leave out "
                "--strategy, --html and --serve"
            )
        _evaluate_predictions(
            (records, label, id, encoder), predicted, budget, seed, state, as_json=as_json
        )
        return
    if serve:
        if as_json or html or records or strategy == Strategy.repeat_last:
            raise ConfigurationError(
                "demo --serve runs one pipeline on built-in records: leave out the file, --json "
                "and --html, and give --strategy margin, random or all"
            )
        _run_live_demo(strategy or Strategy.margin, budget, seed, state, port)
        return
    strategies = list(Strategy) if strategy is None else [strategy]
    source = None if records is None or label is None else (records, label, id, encoder)
    _compare_strategies(
        strategies, source, 0.1 if budget is None else budget, seed, state, html, as_json=as_json
    )


def _refuse_incomplete_records_options(
    records: Path | None,
    label: str | None,
    id: str | None,
    encoder: str | None,
    predicted: str | None,
) -> None:
    if records is not None and label is None:
        raise ConfigurationError(
            f"demo {records}: the label field is missing: give it as --label FIELD"
        )
    if records is None and any(one is not None for one in (label, id, encoder, predicted)):
        raise ConfigurationError(
            "demo: --label, --id, --encoder and --predicted need a file with your own records: "
            "give the file first, as in `streamboost demo records.jsonl --label is_fraud`"
        )


def _compare_strategies(
    strategies: Sequence[Strategy],
    labelled_file: tuple[Path, str, str | None, str | None] | None,
    budget: float,
    seed: int,
    state: Path | None,
    html: Path | None,
    *,
    as_json: bool,
) -> None:
    """Run the strategies in sequence and print their results.

    `labelled_file` is (path of the user's records, label field, id field or None, sentence encoder
    or None). If it is None, the records are River's ImageSegments.
    """
    from tempfile import TemporaryDirectory

    from rich.console import Console

    from streamboost.pipelines.app.warmup import warm_up
    from streamboost.pipelines.config.connectors.base import check_writable
    from streamboost.pipelines.demo import compare as demo
    from streamboost.pipelines.demo import table as screen
    from streamboost.pipelines.demo.curve import LearningCurves
    from streamboost.pipelines.demo.own import split_labelled_file

    demo.refuse_invalid_settings(seed, budget)
    if html is not None:
        check_writable(html)
    messages, curves, rows = (
        Console(stderr=True, highlight=False),
        LearningCurves(),
        list["StrategyResult"](),
    )
    stop = stop_on_signals(b"")
    with TemporaryDirectory() as temporary:
        folder = state or Path(temporary)
        stream = (
            demo.load_image_segments()
            if labelled_file is None
            else split_labelled_file(*labelled_file[:3], folder, labelled_file[3])
        )
        if stream.about:
            messages.print(escape_line(stream.about), markup=False, soft_wrap=True)
        warm_up(messages.print, ["sketch"])
        n_runs = len({"margin" if one == "repeat_last" else one for one in strategies})
        with screen.progress_display(messages, n_runs) as show:

            def record_progress(progress: demo.RunProgress) -> None:
                curves.add(progress)
                show(progress)

            run_strategies = partial(
                demo.run_demo, seed=seed, budget=budget, stop=stop, show=record_progress
            )
            rows += run_strategies(strategies, folder, stream)
    if rows and (lost := len(stream.truth) - min(row.records for row in rows)):
        messages.print(
            f"{lost:,} records are invalid: run with --state to store their dead letters"
        )
    if rows:
        _print_results(
            rows, stream, curves, html, as_json=as_json, draw_curves=labelled_file is not None
        )
    if stop.requested:
        messages.print("interrupted")
        raise typer.Exit(130)


def _evaluate_predictions(
    labelled_file: tuple[Path, str, str | None, str | None],
    field: str,
    budget: float | None,
    seed: int,
    state: Path | None,
    *,
    as_json: bool,
) -> None:
    from dataclasses import asdict
    from tempfile import TemporaryDirectory

    from streamboost.pipelines.app.warmup import warm_up
    from streamboost.pipelines.demo import predicted
    from streamboost.pipelines.demo.own import split_labelled_file

    stop = stop_on_signals(b"")
    with TemporaryDirectory() as temporary:
        folder = state or Path(temporary)
        stream = split_labelled_file(*labelled_file[:3], folder, labelled_file[3])
        print_block(stream.about, file=sys.stderr)
        warm_up(partial(print_block, file=sys.stderr), ["sketch"])
        found = predicted.evaluate_predictions(
            stream,
            field,
            folder / "predicted",
            seed=seed,
            budget=predicted.BUDGET if budget is None else budget,
            stop=stop,
        )
    if as_json:
        print_lines(json.dumps(asdict(found)))
    else:
        print_lines(*predicted.result_lines(found, field))
    if stop.requested:
        raise typer.Exit(130)


def _print_results(
    rows: "Sequence[StrategyResult]",
    stream: "LabelledStream",
    curves: "LearningCurves",
    html: Path | None,
    *,
    as_json: bool,
    draw_curves: bool,
) -> None:
    from dataclasses import asdict

    from rich.console import Console

    from streamboost.pipelines.demo import table as screen
    from streamboost.pipelines.demo.curve import render_curves
    from streamboost.pipelines.demo.page import results_page

    console = Console(highlight=False)
    found = curves.points_by_strategy([row.strategy for row in rows])
    if as_json:
        for row in rows:
            print_lines(json.dumps(asdict(row)))
    else:
        console.print(screen.results_table(rows, escape_line(stream.name)))
        if draw_curves and found:
            console.print(render_curves(found, min(console.width, WIDEST)))
        for line in screen.forecast_text(rows) if draw_curves else ():
            console.print(line, soft_wrap=True)
    if html is not None:
        try:
            html.parent.mkdir(parents=True, exist_ok=True)
            html.write_text(results_page(stream.name, stream.about, rows, found), encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"{html} cannot be written: {error.strerror}") from error


def _run_live_demo(
    strategy: Strategy, budget: float | None, seed: int, state: Path | None, port: int
) -> None:
    from tempfile import TemporaryDirectory

    from streamboost.pipelines.app.warmup import warm_up
    from streamboost.pipelines.demo import live as demo_serve

    stop = stop_on_signals(b"stopping\n")
    warm_up(partial(print_block, file=sys.stderr), ["sketch"])
    with TemporaryDirectory() as temporary:
        folder = state or Path(temporary)
        print_lines(
            f"a pipeline runs in {folder}: open the following link in a browser, answer requests "
            "under /label, and stop with Ctrl-C"
        )
        demo_serve.run_live_demo(
            folder,
            strategy=strategy.value,
            seed=seed,
            budget=demo_serve.BUDGET if budget is None else budget,
            port=port,
            stop=stop,
        )
