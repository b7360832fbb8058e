"""Routes of the pages: dashboard pages, labelling at ``/label``, and drill-down pages."""

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
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from streamboost.pipelines.dashboard.drilldown import add_drilldown_pages
from streamboost.pipelines.dashboard.labelling import LabellingPage
from streamboost.pipelines.dashboard.labelling_progress import AccuracyGainTracker
from streamboost.pipelines.dashboard.layout import PARTS, Header, add_csp_nonces, main_element
from streamboost.pipelines.dashboard.overview import (
    OVERVIEW,
    TABLES_EVERY,
    Dashboard,
    PipelinesOverview,
)
from streamboost.pipelines.dashboard.sockets import (
    bind_websockets_to_logins,
    delete_unconnected_pages,
)
from streamboost.pipelines.dashboard.view import EVERY, StatusFeed, page_address, visible_snapshot
from streamboost.pipelines.dashboard.widgets import STATIC
from streamboost.pipelines.service.labelling.progress import LabellingProgress
from streamboost.pipelines.service.labelling.served import ServedPipeline

_log = logging.getLogger(__name__)

PATIENCE = 30.0
"""Timeout in seconds for building a page on a busy machine."""

RECONNECT_TIMEOUT = 10.0
"""Seconds after which the page of a lost connection is deleted, and loaded again if it comes back.

Pings follow from it: every 8 s, each to be answered within 4 s. A closed labelling page releases
its lease after this time.
"""


def add_pages(app: FastAPI, pipelines: Sequence[ServedPipeline]) -> None:
    """Add the dashboard, labelling and drill-down pages to `app`, after all its other routes.

    A middleware must have stored ``csp_nonce`` and ``person`` in each request's state. NiceGUI's
    routes are global, so a process can have only one set of pages.
    """
    add_csp_nonces()
    nicegui_app.router.dependencies.append(Depends(delete_unconnected_pages))  # of every page below
    threads = ThreadPoolExecutor(1, thread_name_prefix="streamboost-feed")
    feeds = {
        served.name: StatusFeed(served.status, threads, served.is_running) for served in pipelines
    }
    by_name = {served.name: served for served in pipelines}
    for title, path, _ in PARTS:
        _add_dashboard_page(title, path, by_name, feeds)
    _add_labelling_page(by_name, feeds)
    add_drilldown_pages(by_name, feeds)
    # Disable the loading bar for background requests.
    nicegui_app.config.quasar_config["loadingBar"] = {"skipHijack": True}
    nicegui_app.add_exception_handler(404, _not_found_response)
    nicegui_app.add_exception_handler(Exception, _server_error_response)
    ui.add_head_html(_style_element(STATIC / "pages.css"), shared=True)
    # Shown until the scripts that draw the page have loaded.
    ui.add_body_html('<p class="opening"><b>streamboost</b> is loading</p>', shared=True)
    ui.run_with(
        app,
        title="streamboost",
        favicon=STATIC / "icon.svg",
        dark=None,
        language="en-US",
        tailwind=False,
        show_welcome_message=False,
        binding_refresh_interval=None,
        reconnect_timeout=RECONNECT_TIMEOUT,
        message_history_length=200,
        # Level 9 takes three times as long for a tenth less, and each visit compresses a megabyte.
        gzip_middleware_factory=partial(GZipMiddleware, compresslevel=4),
    )
    bind_websockets_to_logins()


def _add_dashboard_page(
    title: str, path: str, pipelines: Mapping[str, ServedPipeline], feeds: Mapping[str, StatusFeed]
) -> None:
    names = list(feeds)

    @ui.page(path, title=f"{title} | streamboost", response_timeout=PATIENCE)
    async def dashboard_page(request: Request, pipeline: str | None = None) -> Response | None:
        name = _selected_pipeline(pipeline, names)
        if name is not None and pipelines[name].blind_mode.is_blind(request.state.person):
            return RedirectResponse(page_address("/label", name))  # class counts reveal predictions
        header = Header(path, name, names, request.state.person)
        if name is None:
            with main_element("Pipelines"):
                overview = PipelinesOverview(names)

            async def show_overview() -> None:
                person = request.state.person
                for each, feed in feeds.items():
                    blindfold = pipelines[each].blind_mode
                    overview.show(each, visible_snapshot(await feed.read(), blindfold, person))

            await _refresh_while_open(show_overview)
            return None
        with main_element(name if path == OVERVIEW else title):
            panels = Dashboard(name, path)
        served, person, shown = pipelines[name], request.state.person, -1
        gains = AccuracyGainTracker()
        progress = LabellingProgress()

        async def show_dashboard() -> None:
            nonlocal shown, progress
            view = await feeds[name].read()
            header.show_counts(view)
            if view.number != shown:
                if shown < 0 or view.number % TABLES_EVERY == 0:
                    progress = await asyncio.to_thread(served.queue.progress, person)
                shown = view.number
                panels.show_metrics(view, progress, gains.gain_since(progress.first, view))
            panels.update(view)

        await _refresh_while_open(show_dashboard)
        return None


def _add_labelling_page(
    pipelines: Mapping[str, ServedPipeline], feeds: Mapping[str, StatusFeed]
) -> None:
    names = list(pipelines)
    open_desks = Counter[tuple[str, str]]()
    keys: dict[str, dict[str | int, str]] = {name: {} for name in names}

    @ui.page("/label", title="Labelling | streamboost", response_timeout=PATIENCE)
    async def labelling_page(
        request: Request, pipeline: str | None = None, change: str | None = None
    ) -> None:
        name = _selected_pipeline(pipeline, names) or names[0]
        person = request.state.person
        header = Header("/label", name, names, person)
        with main_element(f"Labelling for {name}"):
            desk = LabellingPage(pipelines[name], person, keys[name])
        seat = name, person.seat
        open_desks[seat] += 1

        async def release_lease() -> None:
            # The disconnect is noticed late: the same user may have another page open.
            open_desks[seat] -= 1
            if not open_desks[seat]:
                del open_desks[seat]
                await desk.release_lease()

        ui.context.client.on_delete(lambda: background_tasks.create(release_lease()))

        async def show_request() -> None:
            view = await feeds[name].read()
            header.show_counts(view)
            await desk.refresh(view)

        await _refresh_while_open(show_request)
        if change is not None:
            await desk.correct_record(change)


async def _refresh_while_open(show_newest: Callable[[], Awaitable[None]]) -> None:
    """Call `show_newest` now, and then every `EVERY` seconds until the page is closed."""
    await show_newest()
    ui.timer(EVERY, show_newest, immediate=False)


def _not_found_response(request: Request, error: Exception) -> Response:
    """Return a plain 404 response: NiceGUI's error page evaluates scripts."""
    return PlainTextResponse("404 Not Found: there is no such page\n", 404)


def _server_error_response(request: Request, error: Exception) -> Response:
    _log.error(
        "%s could not be shown", request.url.path, exc_info=error, extra={"event": "page_failed"}
    )
    return PlainTextResponse("500 Internal Server Error: see the log of `streamboost serve`\n", 500)


def _selected_pipeline(name: str | None, names: Sequence[str]) -> str | None:
    """Return the name of the pipeline to show; None to show the overview of all pipelines.

    Raises HTTPException (404) if the name is not in `names`.
    """
    if name is None:
        return names[0] if len(names) == 1 else None
    if name not in names:
        raise HTTPException(404, "there is no pipeline of that name")
    return name


def _style_element(path: Path) -> str:
    return f"<style>{path.read_text(encoding='utf-8')}</style>"
