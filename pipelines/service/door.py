"""The connections themselves: how many there may be, and how long they may say nothing.

uvicorn waits for ever for whoever connects, and counts those who never ask anything along with
those who are logged in. Here a connection has to ask within seconds, TLS included, and counts as a
stranger's until the guard has seen who comes on it.
"""

import asyncio
import ssl
from ipaddress import ip_address, ip_network
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamboost.pipelines.service.access.settings import Settings, address_of
from streamboost.pipelines.service.access.strangers import Strangers

__all__ = ["DoorConfig"]


class DoorConfig(uvicorn.Config):
    """uvicorn's configuration, whose connections are those of `_Door`.

    Parameters
    ----------
    limits : how many there may be, and for how long
    proxy : the address or network of a proxy, whose connections are those of many
    """

    def __init__(self, app: Any, limits: Settings, proxy: str | None, **more: Any) -> None:
        self._proxy = None if proxy is None else ip_network(proxy, strict=False)
        super().__init__(
            app,
            http=_Door,
            loop="asyncio",  # uvloop reads on before a connection has become one of TLS
            proxy_headers=proxy is not None,
            forwarded_allow_ips=str(self._proxy),
            **more,
        )
        self.patience = limits.patience
        self.strangers = Strangers(*limits.strangers)
        self.tls: ssl.SSLContext | None = None

    def load(self) -> None:
        """Load what uvicorn does, but let the door speak TLS, which counts who comes before it."""
        super().load()
        self.tls, self.ssl = self.ssl, None

    def is_proxy(self, host: str) -> bool:
        """Tell whether `host` is the proxy's address."""
        return self._proxy is not None and ip_address(host.partition("%")[0]) in self._proxy


class _Door(H11Protocol):
    """A connection, from the moment it is made."""

    config: DoorConfig

    def __init__(self, config: DoorConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        self.app_state = self.app_state | {"proven": self._leave}
        self._address: str | None = None
        self._raw: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._upgrade: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        self._is_lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count it, and begin TLS or HTTP."""
        self._raw = transport
        self._await_request()
        peer = transport.get_extra_info("peername") or ("",)
        if not (peer[0] and self.config.is_proxy(peer[0])):
            self._address = address_of((peer[0], 0))
            self.config.strangers.enter(self, self._address)
        if self.config.tls is None:
            super().connection_made(transport)
        else:
            transport.pause_reading()  # what comes before TLS is there would be lost
            self._upgrade = self.loop.create_task(self._secure(transport, self.config.tls))

    async def _secure(self, raw: asyncio.Transport, tls: ssl.SSLContext) -> None:
        try:
            secured = await self.loop.start_tls(
                raw, self, tls, server_side=True, ssl_handshake_timeout=self.config.patience
            )
        except (OSError, asyncio.CancelledError):  # also what is no TLS
            self._is_lost = True
            raw.abort()
        else:
            if secured is not None and not self._is_lost:
                super().connection_made(secured)
                while self._early:
                    self.data_received(self._early.pop(0))
        finally:
            if self._is_lost:
                self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no longer."""
        self._is_lost = True
        self._forget()
        if self.transport is not None:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what arrived; a request, body included, has to be whole within `patience`."""
        if self.transport is None:
            self._early.append(data)
            return
        super().data_received(data)
        cycle = self.cycle
        if cycle is not None and not (cycle.more_body or cycle.response_complete):
            self._stop_waiting()
        elif self._deadline is None and not self._has_moved:
            self._await_request()

    def on_response_complete(self) -> None:
        """Begin the next request, which may have arrived with the one before."""
        super().on_response_complete()
        if self.cycle.more_body and self._deadline is None and not self._has_moved:
            self._await_request()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Leave it to the websocket: whoever may not open one is refused at once."""
        self._forget()
        self._has_moved = True
        super().handle_websocket_upgrade(event)

    def end(self) -> None:
        """End it at once: somebody else needs the room."""
        if self._raw is not None:
            self._raw.abort()

    _has_moved = False

    def _await_request(self) -> None:
        self._deadline = self.loop.call_later(self.config.patience, self.end)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _leave(self) -> None:
        if self._address is not None:
            self.config.strangers.leave(self, self._address)

    def _forget(self) -> None:
        self._leave()
        self._stop_waiting()
