"""`streamboost demo`: a pipeline at work, to look at or to take part in."""

import json
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from streamboost.errors import ConfigurationError
from streamboost.pipelines.cli.options import stop_on_signals

__all__ = ["demo"]


class Strategy(StrEnum):
    """The rows of the demo's table."""

    margin = "margin"
    random = "random"
    repeat_last = "repeat_last"
    all = "all"


def demo(
    strategy: Annotated[Strategy | None, typer.Option(help="Run this row alone.")] = None,
    budget: Annotated[float, typer.Option(help="Share of labels that may be bought.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Drives the learner, never the order.")] = 0,
    state: Annotated[
        Path | None, typer.Option(help="Keep log and state in this folder.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object per row.")] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Let it run, to be watched and answered in a browser.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Of --serve; 0: any free one.")] = 0,
) -> None:
    """Show the pipeline at work on real records.

    With --serve it does not end: the records come again under new ids until it is stopped, and some
    requests are left for you.
    """
    if serve:
        if as_json or strategy == Strategy.repeat_last:
            raise ConfigurationError(
                "demo --serve shows one pipeline in a browser: leave out --json, and give "
                "--strategy margin, random or all"
            )
        _demo_to_take_part_in(strategy or Strategy.margin, budget, seed, state, port)
        return
    from dataclasses import asdict
    from tempfile import TemporaryDirectory

    from rich.console import Console

    from streamboost.pipelines.demo import compare as demo
    from streamboost.pipelines.demo import table as screen
    from streamboost.pipelines.job.warmup import warm_up

    strategies = demo.STRATEGIES if strategy is None else (strategy.value,)
    messages = Console(stderr=True, highlight=False)
    stop = stop_on_signals(b"")
    warm_up(messages.print, ["sketch"])
    with TemporaryDirectory() as temporary, screen.following(messages) as show:
        folder = state or Path(temporary)
        rows = list(demo.play(strategies, folder, seed=seed, budget=budget, stop=stop, show=show))
    if as_json:
        for row in rows:
            print(json.dumps(asdict(row)))
    elif rows:
        Console(highlight=False).print(screen.table(rows))
    if stop.requested:
        messages.print("interrupted")
        raise typer.Exit(130)


def _demo_to_take_part_in(
    strategy: Strategy, budget: float, seed: int, state: Path | None, port: int
) -> None:
    from tempfile import TemporaryDirectory

    from streamboost.pipelines.demo import live as demo_serve
    from streamboost.pipelines.job.warmup import warm_up

    stop = stop_on_signals(b"stopping\n")
    warm_up(partial(print, file=sys.stderr, flush=True), ["sketch"])
    with TemporaryDirectory() as temporary:
        folder = state or Path(temporary)
        print(
            f"a pipeline runs in {folder}; open the link that comes in a browser, answer under "
            "/label, and stop everything with Ctrl-C",
            flush=True,
        )
        demo_serve.play(
            folder, strategy=strategy.value, seed=seed, budget=budget, port=port, stop=stop
        )
