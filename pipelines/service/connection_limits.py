"""Connection limits of the web server: number of unauthenticated connections, and timeouts.

uvicorn has no timeout for the first request, and its connection limit does not distinguish
unauthenticated clients. Here a connection must send a request within seconds, the TLS handshake
included, and counts as unauthenticated until the guard has authenticated a request.
"""

import asyncio
import ssl
from ipaddress import ip_address, ip_network
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamboost.pipelines.service.auth.settings import AuthSettings, client_address_key
from streamboost.pipelines.service.auth.unauthenticated import UnauthenticatedConnections

_CHECKS = 10
"""Number of checks of a write buffer within `patience`. A single check may see no shrinking
although the client reads, as the server writes more."""


class LimitedUvicornConfig(uvicorn.Config):
    """Configuration of uvicorn with `_LimitedH11Protocol` as the protocol.

    Parameters
    ----------
    limits : limits of unauthenticated connections, and the timeout
    proxy : address or network of a reverse proxy, whose connections are not limited
    """

    def __init__(self, app: Any, limits: AuthSettings, proxy: str | None, **more: Any) -> None:
        self._proxy = None if proxy is None else ip_network(proxy, strict=False)
        super().__init__(
            app,
            http=_LimitedH11Protocol,
            loop="asyncio",  # uvloop keeps reading before the TLS upgrade is complete
            proxy_headers=proxy is not None,
            forwarded_allow_ips=str(self._proxy),
            **more,
        )
        self.patience = limits.patience
        self.unauthenticated = UnauthenticatedConnections(*limits.max_unauthenticated)
        self.tls: ssl.SSLContext | None = None

    def load(self) -> None:
        """Load the configuration; the protocol does TLS itself, to count handshakes in progress."""
        super().load()
        self.tls, self.ssl = self.ssl, None

    def is_proxy(self, host: str) -> bool:
        """Return whether `host` is an address of the proxy."""
        return self._proxy is not None and ip_address(host.partition("%")[0]) in self._proxy


class _LimitedH11Protocol(H11Protocol):
    """HTTP/1.1 connection with timeouts, counted as unauthenticated from its start."""

    config: LimitedUvicornConfig

    def __init__(self, config: LimitedUvicornConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        self.app_state = self.app_state | {"proven": self._stop_counting_as_unauthenticated}
        self._address: str | None = None
        self._raw: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._upgrade: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        self._is_lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._raw = transport
        self._abort_if_write_stalls(0, 0)
        self._start_request_timeout()
        peer = transport.get_extra_info("peername") or ("",)
        if not (peer[0] and self.config.is_proxy(peer[0])):
            self._address = client_address_key((peer[0], 0))
            self.config.unauthenticated.add(self, self._address)
        if self.config.tls is None:
            super().connection_made(transport)
        else:
            transport.pause_reading()  # data that arrives before the TLS upgrade would be lost
            self._upgrade = self.loop.create_task(self._start_tls(transport, self.config.tls))

    async def _start_tls(self, transport: asyncio.Transport, ssl_context: ssl.SSLContext) -> None:
        try:
            secured = await self.loop.start_tls(
                transport,
                self,
                ssl_context,
                server_side=True,
                ssl_handshake_timeout=self.config.patience,
            )
        except (OSError, asyncio.CancelledError):  # also raised for data that is not TLS
            self._is_lost = True
            transport.abort()
        else:
            if secured is not None and not self._is_lost:
                super().connection_made(secured)
                while self._early:
                    self.data_received(self._early.pop(0))
        finally:
            if self._is_lost:
                self._stop_counting_and_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._stop_counting_and_timeout()
        if self.transport is not None:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read data; a request with its body must be complete within `patience` seconds."""
        if self.transport is None:
            self._early.append(data)
            return
        super().data_received(data)
        cycle = self.cycle
        if cycle is not None and not (cycle.more_body or cycle.response_complete):
            self._cancel_request_timeout()
        elif self._deadline is None and not self._has_moved:
            self._start_request_timeout()

    def on_response_complete(self) -> None:
        """Start the next request, with a timeout if its body is incomplete."""
        super().on_response_complete()
        if self.cycle.more_body and self._deadline is None and not self._has_moved:
            self._start_request_timeout()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._stop_counting_and_timeout()
        self._has_moved = True
        super().handle_websocket_upgrade(event)

    def abort(self) -> None:
        if self._raw is not None:
            self._raw.abort()

    def _abort_if_write_stalls(self, previous_size: int, n_checks: int) -> None:
        """Abort the connection if its write buffer did not shrink for `patience` seconds.

        The buffer had `previous_size` bytes at the last check; `n_checks` checks saw no progress.

        The check continues after an upgrade to a websocket, whose protocol has no such limit.
        """
        assert self._raw is not None
        left = self._raw.get_write_buffer_size()
        n_checks = n_checks + 1 if left and left >= previous_size else 0
        if n_checks == _CHECKS:
            self.abort()
        elif left or not self._raw.is_closing():
            delay = self.config.patience / _CHECKS
            self.loop.call_later(delay, self._abort_if_write_stalls, left, n_checks)

    _has_moved = False

    def _start_request_timeout(self) -> None:
        self._deadline = self.loop.call_later(self.config.patience, self.abort)

    def _cancel_request_timeout(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_counting_as_unauthenticated(self) -> None:
        if self._address is not None:
            self.config.unauthenticated.remove(self, self._address)

    def _stop_counting_and_timeout(self) -> None:
        self._stop_counting_as_unauthenticated()
        self._cancel_request_timeout()
