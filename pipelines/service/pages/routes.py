"""The pages of `serve`: the dashboard at ``/``, labelling at ``/label``, and `causes`."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from fastapi import Depends, FastAPI, Request
from nicegui import app as nicegui_app
from nicegui import background_tasks, ui
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse, Response

from streamboost.pipelines.service.labelling.served import Served
from streamboost.pipelines.service.pages.causes.routes import add_causes
from streamboost.pipelines.service.pages.dashboard import TABLES_EVERY, Dashboard, Overview
from streamboost.pipelines.service.pages.labelling import LabellingDesk
from streamboost.pipelines.service.pages.layout import Header, bear_nonces, main
from streamboost.pipelines.service.pages.progress import Gains
from streamboost.pipelines.service.pages.sockets import bind_sockets, drop_unconnected
from streamboost.pipelines.service.pages.view import EVERY, Feed
from streamboost.pipelines.service.pages.widgets import STATIC

__all__ = ["install"]

_log = logging.getLogger(__name__)

PATIENCE = 30.0
"""Seconds that a page may take to be built on a machine that has much to do."""


def install(app: FastAPI, pipelines: Sequence[Served]) -> None:
    """Add the pages to `app`, after all its other routes.

    A middleware must have put ``csp_nonce`` and ``person`` into each request's state. NiceGUI keeps
    its routes per process, so that there is one set of pages in each.
    """
    bear_nonces()
    nicegui_app.router.dependencies.append(Depends(drop_unconnected))  # of every page below
    threads = ThreadPoolExecutor(1, thread_name_prefix="streamboost-feed")
    feeds = {served.name: Feed(served.status, threads, served.runs) for served in pipelines}
    by_name = {served.name: served for served in pipelines}
    _add_dashboard(by_name, feeds)
    _add_labelling(by_name, feeds)
    add_causes(by_name, feeds)
    # No bar across the top whenever something is fetched.
    nicegui_app.config.quasar_config["loadingBar"] = {"skipHijack": True}
    nicegui_app.add_exception_handler(404, _not_found)
    nicegui_app.add_exception_handler(Exception, _failed)
    ui.add_head_html(_style(STATIC / "pages.css"), shared=True)
    # All else is drawn by scripts, which take longest to come; this is hidden once they have.
    ui.add_body_html('<p class="opening"><b>streamboost</b> is opening</p>', shared=True)
    ui.run_with(
        app,
        title="streamboost",
        favicon=STATIC / "icon.svg",
        dark=None,
        language="en-US",
        tailwind=False,
        show_welcome_message=False,
        binding_refresh_interval=None,
        message_history_length=50,
        # Level 9 takes three times as long for a tenth less, and each visit compresses a megabyte.
        gzip_middleware_factory=partial(GZipMiddleware, compresslevel=4),
    )
    bind_sockets()


def _add_dashboard(pipelines: Mapping[str, Served], feeds: Mapping[str, Feed]) -> None:
    names = list(feeds)

    @ui.page("/", title="Dashboard | streamboost", response_timeout=PATIENCE)
    async def dashboard(request: Request, pipeline: str | None = None) -> None:
        name = _chosen(pipeline, names)
        header = Header("/", name, names, request.state.person)
        if name is None:
            with main("Pipelines"):
                overview = Overview(names)

            async def show_all() -> None:
                for each, feed in feeds.items():
                    overview.show(each, await feed.look())

            await _live(show_all)
            return
        with main(name):
            panels = Dashboard(name)
        served, person, shown = pipelines[name], request.state.person, -1
        gains = Gains()
        first: int | None = None

        async def show() -> None:
            nonlocal shown, first
            view = await feeds[name].look()
            header.show(view)
            if view.number != shown:
                if shown < 0 or view.number % TABLES_EVERY == 0:
                    first = (await asyncio.to_thread(served.queue.progress, person)).first
                shown = view.number
                panels.show(view, gains.since(first, view))
            panels.look(view)

        await _live(show)


def _add_labelling(pipelines: Mapping[str, Served], feeds: Mapping[str, Feed]) -> None:
    names = list(pipelines)
    open_desks = Counter[tuple[str, str]]()
    keys: dict[str, dict[str | int, str]] = {name: {} for name in names}

    @ui.page("/label", title="Labelling | streamboost", response_timeout=PATIENCE)
    async def labelling(
        request: Request, pipeline: str | None = None, change: str | None = None
    ) -> None:
        name = _chosen(pipeline, names) or names[0]
        person = request.state.person
        header = Header("/label", name, names, person)
        with main(f"Labelling for {name}"):
            desk = LabellingDesk(pipelines[name], person, keys[name])
        seat = name, person.seat
        open_desks[seat] += 1

        async def leave() -> None:
            # A page that was left is noticed late: the same person may have opened another.
            open_desks[seat] -= 1
            if not open_desks[seat]:
                del open_desks[seat]
                await desk.leave()

        ui.context.client.on_delete(lambda: background_tasks.create(leave()))

        async def show() -> None:
            view = await feeds[name].look()
            header.show(view)
            await desk.refresh(view)

        await _live(show)
        if change is not None:
            await desk.change(change)


async def _live(show: Callable[[], Awaitable[None]]) -> None:
    """Call `show` now, and again and again as long as the page is open."""
    await show()
    ui.timer(EVERY, show, immediate=False)


def _not_found(request: Request, error: Exception) -> Response:
    """Answer without NiceGUI's page for errors, which evaluates scripts."""
    return PlainTextResponse("404 Not Found: there is no such page\n", 404)


def _failed(request: Request, error: Exception) -> Response:
    _log.error("%s could not be shown", request.url.path, exc_info=error)
    return PlainTextResponse("500 Internal Server Error: the log of serve says more\n", 500)


def _chosen(name: str | None, names: Sequence[str]) -> str | None:
    """Return the pipeline a page is about; None: all of several."""
    if name is None:
        return names[0] if len(names) == 1 else None
    if name not in names:
        raise HTTPException(404, "there is no pipeline of that name")
    return name


def _style(path: Path) -> str:
    return f"<style>{path.read_text(encoding='utf-8')}</style>"
