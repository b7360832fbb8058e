"""Where `serve` listens, and how it is asked to stop."""

import getpass
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from streamboost.errors import ConfigurationError
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.service.access.guard import LOGIN
from streamboost.pipelines.service.access.people import People
from streamboost.pipelines.service.access.settings import LOOPBACK, Settings
from streamboost.pipelines.service.app import create_app
from streamboost.pipelines.service.labelling.served import Served
from streamboost.pipelines.service.pages import routes as pages
from streamboost.pipelines.state.folder import State, kept_token
from streamboost.pipelines.stop import after_grace

__all__ = ["TOKEN", "ServeAddress", "serve"]

TOKEN = "serve.token"
"""The file of the token, in the state folder of the first pipeline."""

_STOPPING = 1
"""Seconds that open connections have to end in; what is left until the end is for the labels."""

_GIVEN_UP = b"stopped while it waited: the next `streamboost serve` writes the labels that wait\n"


@dataclass(frozen=True)
class ServeAddress:
    """Where to listen.

    Parameters
    ----------
    address : of this machine
    port : 0 for any free one
    certificate, key : files for https
    allow_plain : whether another address than loopback may go without https
    names : further host names it is reached by

    Raises
    ------
    ConfigurationError
        Where what is said would go over a network unprotected.
    """

    address: str = "127.0.0.1"
    port: int = 8765
    certificate: Path | None = None
    key: Path | None = None
    allow_plain: bool = False
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("--certificate and --key belong together: give both or none")
        if self.address not in LOOPBACK and self.certificate is None and not self.allow_plain:
            raise ConfigurationError(
                f"--address {self.address} can be reached by other machines, and without https "
                "they can read along: give --certificate and --key, or --allow-plain where the "
                "network is protected otherwise"
            )

    @property
    def is_secure(self) -> bool:
        """Whether it speaks https."""
        return self.certificate is not None

    @property
    def hosts(self) -> frozenset[str]:
        """What a request may take it for, in small letters."""
        named = {name.lower().strip("[]") for name in self.names}
        return LOOPBACK | named | ({self.address.lower()} - {"0.0.0.0", "::"})

    def listen(self) -> socket.socket:
        """Return a socket that listens; ConfigurationError where it cannot be had."""
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        try:
            return socket.create_server((self.address, self.port), family=family)
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {self.address}:{self.port} ({error.strerror or error}): choose "
                "another --port or --address, or 0 for any free port"
            ) from error

    def url(self, port: int) -> str:
        """Return what to open in a browser."""
        name = self.names[0] if self.names else self.address
        name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(name, name)
        host = f"[{name}]" if ":" in name else name
        return f"{'https' if self.is_secure else 'http'}://{host}:{port}"


def serve(
    configs: Sequence[Config],
    place: ServeAddress,
    people: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> None:
    """Serve the pipelines of `configs` until SIGINT or SIGTERM.

    `say` is told the address with a login link for each of `people`, or for whoever starts it.
    """
    state = State(configs[0].state)
    with state.told():
        state.path.mkdir(parents=True, exist_ok=True)
        token = kept_token(state.path / TOKEN)
    with place.listen() as listening:
        port = listening.getsockname()[1]
        settings = Settings(token, place.hosts, port, place.is_secure)
        entering = People(token)
        pipelines = [Served.of(config) for config in configs]
        app = create_app(pipelines, settings, entering)
        pages.install(app, pipelines)
        for name in people or (_user(),):
            say(f"{name}: {place.url(port)}{LOGIN}?key={entering.invite(name)}")
        say(f"each link works once, for a day; programs send the token in {state.path / TOKEN}")
        server(app, settings, place).run(sockets=[listening])


def _user() -> str:
    """Return the name of whoever starts it, as far as the system knows it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in some containers
        return "operator"


def server(app: FastAPI, settings: Settings, place: ServeAddress) -> uvicorn.Server:
    """Return what answers for `app`, with limits of its own before those of the guard."""
    return _Server(
        uvicorn.Config(
            app,
            http="h11",  # ends a connection whose body was not read, rather than reading it all
            ws="websockets-sansio",
            ws_max_size=settings.max_body,
            ssl_certfile=place.certificate,
            ssl_keyfile=place.key,
            proxy_headers=False,  # nobody is believed to speak for another
            server_header=False,
            access_log=False,  # it would hold the keys of login links
            log_config=None,
            log_level="warning",
            limit_concurrency=500,
            timeout_graceful_shutdown=_STOPPING,
        )
    )


class _Server(uvicorn.Server):
    """Ends within seconds of a signal, whatever still waits in its threads.

    What was acknowledged is durable by then, so that nothing is lost by what is given up.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            after_grace(_give_up)
        super().handle_exit(sig, frame)


def _give_up() -> None:
    # Past Python's buffers, which the interrupted line may be writing to, and its waiting threads.
    os.write(2, _GIVEN_UP)
    os._exit(0)
