"""Command `streamboost serve`: web server for dashboards and labelling."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamboost.errors import ConfigurationError
from streamboost.pipelines.cli.options import call_after_grace_period, print_lines

if TYPE_CHECKING:
    from streamboost.pipelines.service.auth.sessions import Role

_SWITCH = 0.0005
"""Seconds after which a busy thread lets others run: a checkpoint loads during requests."""

_GIVEN_UP = b"stopped while waiting: the next `streamboost serve` writes the pending labels\n"


def serve(
    paths: Annotated[list[Path], typer.Argument(help="Pipeline files, or state folders.")],
    annotator: Annotated[
        list[str] | None,
        typer.Option(help="Print a login link for an annotator with this name. Repeatable."),
    ] = None,
    operator: Annotated[
        list[str] | None,
        typer.Option(help="Print a login link for an operator with this name. Repeatable."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Set the port. 0 selects a free port.")
    ] = 8765,
    host: Annotated[str, typer.Option(help="Set the address to listen on.")] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Accept this name in the Host header. Repeatable.")
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="Use this TLS certificate file for https. Requires --key.", show_default=False
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="Use this file with the private key of the certificate.", show_default=False
        ),
    ] = None,
    allow_insecure_http: Annotated[
        bool,
        typer.Option(
            "--allow-insecure-http", help="Allow http on an address other than localhost."
        ),
    ] = False,
    proxy: Annotated[
        str | None,
        typer.Option(help="Trust X-Forwarded-For headers from this address.", show_default=False),
    ] = None,
    log_out: Annotated[
        list[str] | None,
        typer.Option(help="End the login sessions of this user, and exit. Repeatable."),
    ] = None,
) -> None:
    """Show pipelines in a browser; label records.

    The server is a separate process: if it fails, the pipelines continue.
    """
    import signal

    from streamboost.pipelines.config.masking import mask_secrets_in_errors_and_log
    from streamboost.pipelines.monitoring import log_format

    try:
        from streamboost.pipelines.app import serve as server
        from streamboost.pipelines.service.labelling import served
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"serve needs {error.name}: install streamboost's extra `serve`, in a clone with "
            "`pip install '.[serve]'`"
        ) from None
    log_format.configure_logging(as_json=False)
    place = server.ServeAddress(
        host, port, certificate, key, allow_insecure_http, tuple(allow_host or ()), proxy
    )
    # The server installs its own handlers while it runs, and re-raises the signals at its end.
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    configs = [served.find_config(path) for path in paths]
    with ExitStack() as hidden:
        for config in configs:
            hidden.enter_context(mask_secrets_in_errors_and_log(config.mask))
        if log_out:
            for name, ended in server.log_out_users(configs, log_out).items():
                print_lines(f"{name}: {ended} logins ended")
            return
        sys.setswitchinterval(_SWITCH)
        people: list[tuple[str, Role]] = [(name, "operator") for name in operator or ()]
        people += [(name, "annotator") for name in annotator or ()]
        server.serve(
            configs,
            place,
            people,
            print_lines,
            on_exit=lambda: call_after_grace_period(_exit_immediately),
        )


def _exit_immediately() -> None:
    """Exit the process at once, without waiting for threads.

    No label is lost, as each one is stored before it is acknowledged.
    """

    # Bypasses Python's buffers, which the interrupted code may be writing to, and the threads.
    os.write(2, _GIVEN_UP)
    os._exit(0)
