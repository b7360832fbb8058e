"""Drill-down pages: record, records, versions, features and dead letters."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from fastapi import Request
from nicegui import ui
from starlette.exceptions import HTTPException

from streamboost.pipelines.dashboard.dead_letters import show_dead_letters
from streamboost.pipelines.dashboard.drift import show_features
from streamboost.pipelines.dashboard.layout import Header, main_element
from streamboost.pipelines.dashboard.operations import OperationsPanel
from streamboost.pipelines.dashboard.record import (
    UnstoredRecord,
    missing_record_text,
    show_missing_record,
    show_record,
)
from streamboost.pipelines.dashboard.records import MOST, RecordPage, show_records
from streamboost.pipelines.dashboard.status_line import StatusPanel
from streamboost.pipelines.dashboard.tables import rollback_origins
from streamboost.pipelines.dashboard.versions import (
    VersionComparison,
    with_label_counts_of_originals,
)
from streamboost.pipelines.dashboard.view import EVERY, StatusFeed, StatusSnapshot, visible_snapshot
from streamboost.pipelines.dashboard.widgets import Tag
from streamboost.pipelines.service.auth.users import User
from streamboost.pipelines.service.labelling.served import ServedPipeline
from streamboost.pipelines.status.reader import Status
from streamboost.pipelines.status.record_filter import RecordFilter

PATIENCE = 30.0
LIKE = 2_000
"""Number of the newest labelled records that are searched for the nearest neighbours."""

FARTHEST = 1_000_000
"""Maximum offset into a list of records: more than are ever kept."""

LAST = 10**15
"""Upper bound of a version number."""

Show = Callable[[StatusSnapshot], Awaitable[None]]


class _PageBuilder:
    """Builds the common parts of the drill-down pages: header, status line and live updates."""

    def __init__(
        self, pipelines: Mapping[str, ServedPipeline], feeds: Mapping[str, StatusFeed]
    ) -> None:
        self._pipelines = pipelines
        self._feeds = feeds

    def find_pipeline(self, name: str | None) -> ServedPipeline:
        """Return the pipeline `name`; None: the only one. Raises HTTPException (404) if unknown."""
        if name is None and len(self._pipelines) == 1:
            return next(iter(self._pipelines.values()))
        found = None if name is None else self._pipelines.get(name)
        if found is None:
            raise HTTPException(404, "there is no pipeline of that name")
        return found

    async def read_with_fresh_labels(self, served: ServedPipeline) -> StatusSnapshot:
        """Return the newest status, with all labelled records so far read again."""
        return await self._feeds[served.name].read(fresh_labels=True)

    async def open_page(
        self, path: str, title: str, served: ServedPipeline, request: Request
    ) -> tuple[StatusSnapshot, Tag, Callable[[Show | None], Awaitable[None]]]:
        """Create a page; return the status, its main element, and a function to start updates."""
        name, person = served.name, request.state.person
        header = Header(path, name, list(self._pipelines), person)
        with main_element(title) as content:
            activity = StatusPanel()
        view = await self._feeds[name].read()

        async def start_updates(show: Show | None = None) -> None:
            async def update_page() -> None:
                found = await self._feeds[name].read()
                header.show_counts(found)
                activity.show(visible_snapshot(found, served.blind_mode, person))
                if show is not None:
                    await show(found)

            await update_page()
            ui.timer(EVERY, update_page, immediate=False)

        return view, content, start_updates


def add_drilldown_pages(
    pipelines: Mapping[str, ServedPipeline], feeds: Mapping[str, StatusFeed]
) -> None:
    """Register the pages of records, versions, features and dead letters with NiceGUI."""
    pages = _PageBuilder(pipelines, feeds)
    _add_record_page(pages)
    _add_record_list_page(pages)
    _add_versions_page(pages)
    _add_feature_and_dead_letter_pages(pages)


def _add_record_page(pages: _PageBuilder) -> None:
    @ui.page("/record", title="Record | streamboost", response_timeout=PATIENCE)
    async def record_page(request: Request, id: str = "", pipeline: str | None = None) -> None:
        served = pages.find_pipeline(pipeline)
        found = await asyncio.to_thread(served.status.labelled_record, id)
        title = f"Record {id}" if id else "Find a record"
        view, content, live = await pages.open_page("/records", title, served, request)
        with content:
            if found is not None:
                person = request.state.person
                every, see = RecordFilter(), served.blind_mode.visible_records
                others = await asyncio.to_thread(served.labelled_records, person, every, LIKE)
                (seen,) = await asyncio.to_thread(see, person, [found])
                may = await asyncio.to_thread(_can_correct, served, person, found)
                show_record(seen, view, others, can_change=may)
            else:
                alike = await asyncio.to_thread(served.status.ids_with_prefix, id)
                unstored = await asyncio.to_thread(
                    _find_unstored_record, served, request.state.person, id
                )
                show_missing_record(missing_record_text(id, unstored, view), alike, served.name)
        await live(None)


def _add_record_list_page(pages: _PageBuilder) -> None:
    @ui.page("/records", title="Records | streamboost", response_timeout=PATIENCE)
    async def record_list_page(
        request: Request,
        pipeline: str | None = None,
        true: str | None = None,
        predicted: str | None = None,
        by: str | None = None,
        since: int | None = None,
        until: int | None = None,
        wrong: bool = False,
        confident: bool = False,
        contested: bool = False,
        disputed: bool = False,
        after: int = 0,
    ) -> None:
        served = pages.find_pipeline(pipeline)
        choice = RecordFilter(
            truth=true or None,
            said=predicted or None,
            by=by or None,
            since=_clamp_version(since),
            until=_clamp_version(until),
            wrong=wrong,
            confident=confident,
            contested=contested,
            # A record with a disputed label is no known mistake.
            disputed=disputed or (False if wrong else None),
        )
        offset = min(max(after, 0), FARTHEST)
        found = await asyncio.to_thread(
            _read_matching_records, served, request.state.person, choice, offset
        )
        view, content, live = await pages.open_page("/records", "Records", served, request)
        with content:
            show_records(found, view, choice, offset)
        await live(None)


def _clamp_version(version: int | None) -> int | None:
    """Clamp a version number to the range 0 to `LAST`, as SQLite integers have at most 64 bits."""
    return None if version is None else min(max(version, 0), LAST)


def _read_matching_records(
    served: ServedPipeline, person: User, record_filter: RecordFilter, offset: int
) -> RecordPage:
    """Return one page of the records that match, without fields that `person` may not see."""
    status = served.status
    seen = served.labelled_records(person, record_filter, MOST + 1, offset)
    records, more = seen[:MOST], len(seen) > MOST
    is_left_out = record_filter.disputed is False
    if served.blind_mode.is_blind(person):
        disputed = None if is_left_out else 0
        total = (
            None
            if record_filter.depends_on_prediction
            else status.count_records(replace(record_filter, closed=True))
        )
        return RecordPage(records, total, more, disputed=disputed)
    sums = status.class_counts(record_filter)
    disputed = status.count_records(replace(record_filter, disputed=True)) if is_left_out else 0
    return RecordPage(records, sum(n for *_, n in sums), more, sums, disputed)


def _find_unstored_record(served: ServedPipeline, person: User, id: str) -> UnstoredRecord:
    """Return the status of a record that is not stored, without data that `person` may not see."""
    found = UnstoredRecord.from_status(id, served.status)
    if found.prediction is None:
        return found
    (seen,) = served.blind_mode.visible_records(person, [found.prediction])
    return replace(found, prediction=seen)


def _can_correct(served: ServedPipeline, person: User, record: Status) -> bool:
    """Return whether `person` may change the label of `record`."""
    truth = record["truth"]
    return (
        truth is not None
        and served.queue.correctable_entry(person, record["id"], truth) is not None
    )


def _refuse_blind_annotator(served: ServedPipeline, request: Request) -> None:
    """Raise HTTPException if an annotator in blind mode requests a page with class counts."""
    if served.blind_mode.is_blind(request.state.person):
        raise HTTPException(403, "only operators see predictions per class: ask an operator")


def _add_versions_page(pages: _PageBuilder) -> None:
    @ui.page("/versions", title="Versions | streamboost", response_timeout=PATIENCE)
    async def versions_page(
        request: Request, pipeline: str | None = None, a: int | None = None, b: str = ""
    ) -> None:
        served = pages.find_pipeline(pipeline)
        _refuse_blind_annotator(served, request)
        known = served.status.versions
        found = await asyncio.to_thread(known)
        await pages.read_with_fresh_labels(served)  # the status line uses the same labels
        view, content, live = await pages.open_page("/versions", "Versions", served, request)
        with content:
            until = int(b) if b.isdecimal() and len(b) < len(str(LAST)) else None
            shown = VersionComparison(found, view.evidence.predictions, view, a, until)
            steering = OperationsPanel(served, request.state.person)
        steering.set_rollback_versions(
            shown.sides, with_label_counts_of_originals(found, rollback_origins(view))
        )

        async def show_versions(newest: StatusSnapshot) -> None:
            if shown.is_stale(newest):
                found = await asyncio.to_thread(known)
                newest = await pages.read_with_fresh_labels(served)
                shown.update(found, newest.evidence.predictions, newest)
                steering.set_rollback_versions(
                    shown.sides, with_label_counts_of_originals(found, rollback_origins(newest))
                )
            steering.show(newest)

        await live(show_versions)


def _add_feature_and_dead_letter_pages(pages: _PageBuilder) -> None:
    @ui.page("/features", title="Features | streamboost", response_timeout=PATIENCE)
    async def features_page(
        request: Request, pipeline: str | None = None, feature: str | None = None
    ) -> None:
        served = pages.find_pipeline(pipeline)
        _refuse_blind_annotator(served, request)
        await pages.read_with_fresh_labels(served)  # the page shows the accuracy since a shift, too
        view, content, live = await pages.open_page("/features", "Features", served, request)
        with content:
            show_features(view, feature)
        await live(None)

    @ui.page("/dead-letters", title="Dead letters | streamboost", response_timeout=PATIENCE)
    async def dead_letters_page(
        request: Request, pipeline: str | None = None, reason: str | None = None
    ) -> None:
        served = pages.find_pipeline(pipeline)
        person = request.state.person
        found = await asyncio.to_thread(served.status.dead_letters)
        found = served.blind_mode.visible_dead_letters(person, found)
        view, content, live = await pages.open_page(
            "/dead-letters", "Dead letters", served, request
        )
        total = int(view.document("join").get("dead_letters") or 0)
        with content:
            show_dead_letters(found, max(total, len(found)), served, person, reason)
        await live(None)
