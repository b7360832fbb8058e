"""Where `serve` listens, and how it is asked to stop."""

import getpass
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from streamboost.errors import ConfigurationError
from streamboost.pipelines.config.file import Config
from streamboost.pipelines.service.access.guard import LOGIN
from streamboost.pipelines.service.access.people import People
from streamboost.pipelines.service.access.sessions import Role
from streamboost.pipelines.service.access.settings import LOOPBACK, Settings
from streamboost.pipelines.service.app import create_app
from streamboost.pipelines.service.door import DoorConfig
from streamboost.pipelines.service.labelling.served import Served
from streamboost.pipelines.service.pages import routes as pages
from streamboost.pipelines.state.folder import State, kept_token

__all__ = ["SESSIONS", "TOKEN", "ServeAddress", "log_out", "serve", "server"]

TOKEN = "serve.token"
"""The file of the token, in the state folder of the first pipeline."""

SCORER = "predict.token"
"""The file of the token that is good for `predict` and `explain` alone, beside it."""

SESSIONS = "serve.logins"
"""The folder of the logins, beside it."""

_STOPPING = 1
"""Seconds that open connections have to end in; what is left until the end is for the labels."""


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
    proxy : address or network of a proxy that is believed to say whom it asks for

    Raises
    ------
    ConfigurationError
        Where what is said would go over a network unprotected, or cannot be used.
    """

    address: str = "127.0.0.1"
    port: int = 8765
    certificate: Path | None = None
    key: Path | None = None
    allow_plain: bool = False
    names: tuple[str, ...] = ()
    proxy: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("--certificate and --key belong together: give both or none")
        if self.address not in LOOPBACK and self.certificate is None and not self.allow_plain:
            raise ConfigurationError(
                f"--address {self.address} can be reached by other machines, and without https "
                "they can read along: give --certificate and --key, or --allow-plain where the "
                "network is protected otherwise"
            )
        if self.proxy is not None:
            try:
                ip_network(self.proxy, strict=False)
            except ValueError:
                raise ConfigurationError(
                    f"--proxy {self.proxy} is no address: give that of the proxy, as it reaches "
                    "this machine, such as 127.0.0.1 or 10.0.0.0/24"
                ) from None

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
        """Return a socket that listens.

        Raises ConfigurationError where it cannot be had, or would have nothing to prove itself by.
        """
        if self.certificate is not None and self.key is not None:
            _check_certificate(self.certificate, self.key)
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        try:
            server = socket.create_server((self.address, self.port), family=family)
            # asyncio does so with its own sockets only; the end of an answer would wait for 40 ms.
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return server
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


def _check_certificate(certificate: Path, key: Path) -> None:
    for option, file in (("--certificate", certificate), ("--key", key)):
        try:
            file.read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"{option} {file} cannot be read: {error.strerror or error}"
            ) from None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"--certificate {certificate} and --key {key} cannot be used ({error}): give files in "
            "PEM that belong together, the key without a password"
        ) from None


def serve(
    configs: Sequence[Config],
    place: ServeAddress,
    people: Sequence[tuple[str, Role]] = (),
    say: Callable[[str], None] = print,
    on_exit: Callable[[], None] | None = None,
) -> None:
    """Serve the pipelines of `configs` until SIGINT or SIGTERM.

    `say` is told the address with a login link for each of `people`, who are labellers or
    operators, or for whoever starts it, an operator. `on_exit` is called at the first signal,
    within its handler.
    """
    token, entering = _people(configs[0])
    with place.listen() as listening:
        port = listening.getsockname()[1]
        settings = Settings(token, place.hosts, port, place.is_secure)
        pipelines = [Served.of(config) for config in configs]
        app = create_app(pipelines, settings, entering)
        pages.install(app, pipelines)
        for name, role in people or ((_user(), "operator"),):
            key = entering.invite(name, role)
            say(f"{entering.spelled(name)} ({role}): {place.url(port)}{LOGIN}?key={key}")
        file = State(configs[0].state).path / TOKEN
        say(f"each link works once, for a day; programs send the token in {file}")
        server(app, settings, place, on_exit).run(sockets=[listening])


def log_out(configs: Sequence[Config], names: Sequence[str]) -> dict[str, int]:
    """End all logins of `names`, whether or not `serve` runs; return how many each had."""
    _, people = _people(configs[0])
    return {name: people.log_out_all(name) for name in names}


def _people(config: Config) -> tuple[str, People]:
    """Return the token, made if need be, and those who are logged in."""
    state = State(config.state)
    with state.told():
        state.make()
        token = kept_token(state.path / TOKEN)
        scorer = kept_token(state.path / SCORER)
    return token, People(token, state.path / SESSIONS, scorer=scorer)


def _user() -> str:
    """Return the name of whoever starts it, as far as the system knows it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in some containers
        return "operator"


def server(
    app: FastAPI,
    settings: Settings,
    place: ServeAddress,
    on_exit: Callable[[], None] | None = None,
) -> uvicorn.Server:
    """Return what answers for `app`, with limits of its own before those of the guard."""
    return _Server(
        DoorConfig(
            app,
            settings,
            place.proxy,
            ws="websockets-sansio",
            ws_max_size=settings.max_body,
            ssl_certfile=place.certificate,
            ssl_keyfile=place.key,
            server_header=False,
            access_log=False,  # it would hold the keys of login links
            log_config=None,
            log_level="warning",
            timeout_graceful_shutdown=_STOPPING,
        ),
        on_exit,
    )


class _Server(uvicorn.Server):
    """Calls `on_exit` at the first signal that ends it."""

    def __init__(self, config: DoorConfig, on_exit: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._on_exit = on_exit

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit and self._on_exit is not None:
            self._on_exit()
        super().handle_exit(sig, frame)
