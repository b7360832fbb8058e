"""The commands for those who watch and answer: `streamboost serve` and `label-studio`."""

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from streamboost.errors import ConfigurationError
from streamboost.pipelines.cli.options import DEFAULT_FILE, PipelineFile, masking, stop_on_signals

__all__ = ["label_studio", "serve"]


def serve(
    paths: Annotated[
        list[Path], typer.Argument(help="Pipeline files, or folders of their states.")
    ],
    person: Annotated[
        list[str] | None, typer.Option(help="Print a login link for this name; repeatable.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free one.")] = 8765,
    address: Annotated[str, typer.Option(help="Of this machine.")] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name it is reached by; repeatable.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="For https, with --key.", show_default=False)
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The certificate's key.", show_default=False)
    ] = None,
    allow_plain: Annotated[
        bool, typer.Option("--allow-plain", help="Another address without https.")
    ] = False,
) -> None:
    """Show pipelines in a browser, and take labels there.

    It is a process of its own: whatever happens to it, the pipelines go on.
    """
    import signal

    from streamboost.pipelines.monitoring import logs

    try:
        from streamboost.pipelines.service import server
        from streamboost.pipelines.service.labelling import served
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"serve needs {error.name}: install streamboost's extra `serve`, in a clone with "
            "`pip install '.[serve]'`"
        ) from None
    logs.begin(as_json=False)
    place = server.ServeAddress(
        address, port, certificate, key, allow_plain, tuple(allow_host or ())
    )
    # While it serves, the server takes them, and hands them on when it has ended.
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    configs = [served.find(path) for path in paths]
    with ExitStack() as hidden:
        for config in configs:
            hidden.enter_context(masking(config))
        server.serve(configs, place, person or (), partial(print, flush=True))


def label_studio(
    path: PipelineFile = DEFAULT_FILE,
    once: Annotated[bool, typer.Option("--once", help="Carry what there is now, and end.")] = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log one JSON object a line.")
    ] = False,
) -> None:
    """Let people answer in Label Studio.

    Requests become tasks of the project that [label_studio] names, and finished annotations labels.
    It runs beside the pipeline, and goes on where it was stopped.
    """
    from streamboost.pipelines.config.file import load
    from streamboost.pipelines.label_studio import run as bridge
    from streamboost.pipelines.monitoring import logs

    logs.begin(as_json=log_json)
    config = load(path)
    with masking(config):
        bridge.run(config, stop_on_signals(b""), once=once)
