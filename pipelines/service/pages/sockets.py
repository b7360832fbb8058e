"""The pages' websockets: each belongs to the login that made its page."""

import logging
from collections.abc import Callable
from inspect import isawaitable
from typing import Any
from urllib.parse import parse_qs

from nicegui import Client, core
from socketio.exceptions import ConnectionRefusedError as Refused

from streamboost.pipelines.service.access.people import Person

__all__ = ["MOST_UNCONNECTED", "bind_sockets", "drop_unconnected"]

_log = logging.getLogger(__name__)

MOST_UNCONNECTED = 50
"""Pages that are kept beside a new one for browsers which did not connect yet: each takes over a
megabyte."""

_OF_PAGES = ("handshake", "event", "javascript_response", "ack", "log")
"""What a browser sends of the page that its `client_id` names."""


def bind_sockets() -> None:
    """Have a websocket speak for the pages of its own login alone, whatever ids it knows.

    NiceGUI looks at the id of a page and not at who sends it. Only websockets are taken: of them
    the guard sees when their login ends.
    """
    for logger in (core.sio.logger, core.sio.eio.logger):
        logger.handlers.clear()  # they print what a client sent; the log of `serve` escapes it
    core.sio.eio.transports = ["websocket"]
    core.app.config.socket_io_js_transports = ["websocket"]
    handlers = core.sio.handlers["/"]
    for name in _OF_PAGES:
        handlers[name] = _bound(handlers[name])
    handlers["connect"] = _bound_by_address(handlers["connect"])


def _bound(handler: Callable[..., Any]) -> Callable[..., Any]:
    async def of_own_page(sid: str, message: dict[str, Any]) -> Any:
        if _is_anothers(message["client_id"], core.sio.get_environ(sid)):
            return False
        done = handler(sid, message)
        return await done if isawaitable(done) else done

    return of_own_page


def _bound_by_address(connect: Callable[..., Any]) -> Callable[..., Any]:
    async def with_own_page(sid: str, environ: dict[str, Any], auth: Any = None) -> None:
        for id in parse_qs(environ.get("QUERY_STRING", "")).get("client_id", ()):
            if _is_anothers(id, environ):
                raise Refused("this page belongs to another login")
        await connect(sid, environ, auth)

    return with_own_page


def _is_anothers(id: str, environ: dict[str, Any]) -> bool:
    """Tell whether a page was made for another login than that of a websocket."""
    client = Client.instances.get(id)
    asking: Person = environ["asgi.scope"]["state"]["person"]
    if client is None or client.request.state.person == asking:
        return False
    _log.warning("%s sends events of a page that another login made", asking.name)
    return True


async def drop_unconnected() -> None:
    """Delete the oldest pages that no browser connected to, beyond `MOST_UNCONNECTED`."""
    waiting = [client for client in Client.instances.values() if not client.has_socket_connection]
    waiting.sort(key=lambda client: client.created)
    for client in waiting[: max(len(waiting) - MOST_UNCONNECTED, 0)]:
        client.delete()
