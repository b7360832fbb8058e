"""`streamboost serve`: pipelines in a browser."""

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from streamboost.errors import ConfigurationError

__all__ = ["serve"]


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

    from streamboost.pipelines.config.masking import masking
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
            hidden.enter_context(masking(config.mask))
        server.serve(configs, place, person or (), partial(print, flush=True))
