"""Websockets of the pages: each has one page, of the login session that opened the page."""

import logging
from collections.abc import Callable
from inspect import isawaitable
from traceback import walk_tb
from typing import Any
from urllib.parse import parse_qs

from nicegui import Client, core
from socketio.exceptions import ConnectionRefusedError as Refused

from streamboost.pipelines.service.auth.users import User

_log = logging.getLogger(__name__)

MOST_UNCONNECTED = 50
"""Maximum number of pages that wait for a browser's websocket: each takes over a megabyte."""

_OF_PAGES = ("handshake", "event", "javascript_response", "ack", "log")
"""Websocket events with a `client_id`, the id of the page that they belong to."""


def bind_websockets_to_logins() -> None:
    """Reject websocket events for pages of another login session, or of another websocket.

    NiceGUI checks the id of a page, but not the sender. A page with a websocket is not dropped, so
    many pages on one websocket would evade the limits on pages and on websockets. Only the
    websocket transport is enabled, because the guard closes websockets when their login ends.
    """
    for logger in (core.sio.logger, core.sio.eio.logger):
        logger.handlers.clear()  # they print client data unescaped; the log of `serve` escapes it
    for logger in (core.sio.logger, core.sio.eio.logger, logging.getLogger("uvicorn.error")):
        logger.addFilter(shorten_traceback)
    core.sio.eio.transports = ["websocket"]
    core.app.config.socket_io_js_transports = ["websocket"]
    handlers = core.sio.handlers["/"]
    handlers["log"] = _log_browser_message
    for name in _OF_PAGES:
        handlers[name] = _reject_foreign_events(handlers[name])
    handlers["connect"] = _reject_connects_of_other_logins(handlers["connect"])


def shorten_traceback(record: logging.LogRecord) -> bool:
    """Replace the traceback of a malformed websocket message in a log record by one line.

    Errors of the application keep their traceback. The result is always True, so that this logging
    filter drops no record.
    """
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        modules = [frame.f_globals["__name__"] for frame, _ in walk_tb(error.__traceback__)]
        module = modules[-1] if modules else ""
        is_text = isinstance(error, UnicodeDecodeError) and module.startswith("uvicorn.")
        is_packet = record.name != "uvicorn.error" or module.startswith("engineio.")
        if is_text or is_packet:
            record.msg, record.args = "malformed websocket message: %.200r", (error,)
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.exc_info = record.exc_text = None
    return True


def _log_browser_message(sid: str, message: dict[str, Any]) -> None:
    """Log what a page's scripts report, marked as the text of a client, and shortened."""
    person: User = core.sio.get_environ(sid)["asgi.scope"]["state"]["person"]
    _log.warning(
        "the browser of %s reports %.200r",
        person.name,
        message["message"],
        extra={"event": "browser_message"},
    )


def _reject_foreign_events(handler: Callable[..., Any]) -> Callable[..., Any]:
    async def handle_event(sid: str, *messages: Any) -> Any:
        try:
            (message,) = messages
            id = message["client_id"]
            if _belongs_to_other_login(id, core.sio.get_environ(sid)) or _has_other_page(sid, id):
                return False
            done = handler(sid, message)
            return await done if isawaitable(done) else done
        except (KeyError, TypeError, ValueError) as error:
            # NiceGUI catches errors of our own handlers and logs their traceback.
            _log.warning(
                "malformed websocket event: %.200r",
                error,
                extra={"event": "websocket_event_malformed"},
            )
            return False

    return handle_event


def _reject_connects_of_other_logins(connect: Callable[..., Any]) -> Callable[..., Any]:
    async def check_and_connect(sid: str, environ: dict[str, Any], auth: Any = None) -> None:
        for id in parse_qs(environ.get("QUERY_STRING", "")).get("client_id", ()):
            if _belongs_to_other_login(id, environ):
                raise Refused("this page belongs to another login")
        await connect(sid, environ, auth)

    return check_and_connect


def _belongs_to_other_login(page_id: str, environ: dict[str, Any]) -> bool:
    """Return whether the page belongs to another login than the websocket; if so, log that."""
    client = Client.instances.get(page_id)
    asking: User = environ["asgi.scope"]["state"]["person"]
    if client is None or client.request.state.person == asking:
        return False
    _log.warning(
        "%s sends events of a page that another login made",
        asking.name,
        extra={"event": "websocket_event_foreign"},
    )
    return True


def _has_other_page(sid: str, page_id: str) -> bool:
    """Return whether the websocket `sid` is also connected to a page other than `page_id`.

    Each page is a Socket.IO room.
    """
    return any(room != page_id and room in Client.instances for room in core.sio.rooms(sid))


async def delete_unconnected_pages() -> None:
    """Keep only the newest `MOST_UNCONNECTED` of the pages to which no browser connected."""
    waiting = [client for client in Client.instances.values() if not client.has_socket_connection]
    waiting.sort(key=lambda client: client.created)
    for client in waiting[: max(len(waiting) - MOST_UNCONNECTED, 0)]:
        client.delete()
