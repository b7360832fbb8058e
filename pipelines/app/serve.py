"""HTTP server of `streamboost serve`: address, TLS, login links, and shutdown."""

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
from streamboost.pipelines.dashboard import routes as pages
from streamboost.pipelines.service.app import create_app
from streamboost.pipelines.service.auth.guard import LOGIN
from streamboost.pipelines.service.auth.sessions import Role
from streamboost.pipelines.service.auth.settings import LOOPBACK, AuthSettings
from streamboost.pipelines.service.auth.users import Users
from streamboost.pipelines.service.connection_limits import LimitedUvicornConfig
from streamboost.pipelines.service.labelling.served import ServedPipeline
from streamboost.pipelines.state.folder import State, read_or_create_token

TOKEN = "serve.token"
"""Name of the token file, in the state folder of the first pipeline."""

SCORER = "predict.token"
"""Name of the file with a token for `predict` and `explain` only, in the same folder."""

SESSIONS = "serve.logins"
"""Name of the folder of the login sessions, in the same folder."""

_STOPPING = 1
"""Timeout in seconds for open connections at shutdown; the remaining time is for the labels."""


@dataclass(frozen=True)
class ServeAddress:
    """Listening address with its TLS settings.

    Parameters
    ----------
    host : address or name to listen on
    port : port; 0: any free port
    certificate, key : files for https
    allow_insecure_http : whether http without TLS is allowed on other addresses than loopback
    allowed_hosts : further host names of the server
    proxy : address or network of a trusted proxy, which reports the client address

    Raises
    ------
    ConfigurationError
        If traffic would cross a network unprotected, or a setting is invalid.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    certificate: Path | None = None
    key: Path | None = None
    allow_insecure_http: bool = False
    allowed_hosts: tuple[str, ...] = ()
    proxy: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("--certificate and --key need each other: give both or none")
        if self.host not in LOOPBACK and self.certificate is None and not self.allow_insecure_http:
            raise ConfigurationError(
                f"other machines can reach --host {self.host}, and traffic is readable without "
                "https: give --certificate and --key, or --allow-insecure-http if the network is "
                "protected in another way"
            )
        if self.proxy is not None:
            try:
                ip_network(self.proxy, strict=False)
            except ValueError:
                raise ConfigurationError(
                    f"--proxy {self.proxy} is no address: give the address or network from which "
                    "the proxy connects, such as 127.0.0.1 or 10.0.0.0/24"
                ) from None

    @property
    def is_secure(self) -> bool:
        """Whether the server uses https."""
        return self.certificate is not None

    @property
    def hosts(self) -> frozenset[str]:
        """Accepted values of the Host header, in lower case."""
        named = {name.lower().strip("[]") for name in self.allowed_hosts}
        return LOOPBACK | named | ({self.host.lower()} - {"0.0.0.0", "::"})

    def listen(self) -> socket.socket:
        """Return a listening socket.

        Raises ConfigurationError if the address is unavailable, or the certificate is invalid.
        """
        if self.certificate is not None and self.key is not None:
            _check_certificate(self.certificate, self.key)
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            server = socket.create_server((self.host, self.port), family=family)
            # asyncio sets this only on its own sockets; without it, responses end 40 ms late.
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return server
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {self.host}:{self.port} ({error.strerror or error}): choose "
                "another --port or --host, or 0 for any free port"
            ) from error

    def url(self, port: int) -> str:
        """Return the URL to open in a browser; `port` is the port that the server listens on."""
        name = self.allowed_hosts[0] if self.allowed_hosts else self.host
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
            f"--certificate {certificate} and --key {key} cannot be used ({error}): give a PEM "
            "certificate and its key without a password"
        ) from None


def serve(
    configs: Sequence[Config],
    address: ServeAddress,
    users: Sequence[tuple[str, Role]] = (),
    print_line: Callable[[str], None] = print,
    on_exit: Callable[[], None] | None = None,
) -> None:
    """Serve the pipelines of `configs` until SIGINT or SIGTERM.

    `print_line` is called with a login link for each of `users`, pairs of name and role. Without
    `users`, the user who starts the server gets a link as operator. `on_exit` is called in the
    handler of the first signal.
    """
    token, store = _load_token_and_users(configs[0])
    with address.listen() as listening:
        port = listening.getsockname()[1]
        settings = AuthSettings(token, address.hosts, port, address.is_secure)
        pipelines = [ServedPipeline.from_config(config) for config in configs]
        app = create_app(pipelines, settings, store)
        pages.add_pages(app, pipelines)
        for name, role in users or ((_process_user_name(), "operator"),):
            key = store.create_login_link(name, role)
            print_line(
                f"{store.canonical_name(name)} ({role}): {address.url(port)}{LOGIN}?key={key}"
            )
        file = State(configs[0].state).path / TOKEN
        print_line(f"each link works once, for a day; programs send the token in {file}")
        build_server(app, settings, address, on_exit).run(sockets=[listening])


def log_out_users(configs: Sequence[Config], names: Sequence[str]) -> dict[str, int]:
    """End all login sessions of the users `names`, also while `serve` runs.

    Returns the number of ended sessions by user name.
    """
    _, store = _load_token_and_users(configs[0])
    return {name: store.log_out_user(name) for name in names}


def _load_token_and_users(config: Config) -> tuple[str, Users]:
    state = State(config.state)
    with state.translate_errors():
        state.create()
        token = read_or_create_token(state.path / TOKEN)
        scorer = read_or_create_token(state.path / SCORER)
    return token, Users(token, state.path / SESSIONS, scorer=scorer)


def _process_user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in some containers
        return "operator"


def build_server(
    app: FastAPI,
    settings: AuthSettings,
    address: ServeAddress,
    on_exit: Callable[[], None] | None = None,
) -> uvicorn.Server:
    """Return an HTTP server of `app` that also limits the number of open connections."""
    return _ServerWithExitCallback(
        LimitedUvicornConfig(
            app,
            settings,
            address.proxy,
            ws="websockets-sansio",
            ws_max_size=settings.max_message,
            ssl_certfile=address.certificate,
            ssl_keyfile=address.key,
            server_header=False,
            access_log=False,  # it would hold the keys of login links
            log_config=None,
            log_level="warning",
            timeout_graceful_shutdown=_STOPPING,
        ),
        on_exit,
    )


class _ServerWithExitCallback(uvicorn.Server):
    def __init__(self, config: LimitedUvicornConfig, on_exit: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._on_exit = on_exit

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit and self._on_exit is not None:
            self._on_exit()
        super().handle_exit(sig, frame)
