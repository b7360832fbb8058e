"""The addresses of the pages that lead from a figure to its cause."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from fastapi import Request
from nicegui import ui
from starlette.exceptions import HTTPException

from streamboost.pipelines.service.access.people import Person
from streamboost.pipelines.service.labelling.served import Served
from streamboost.pipelines.service.pages.causes.features import show_features
from streamboost.pipelines.service.pages.causes.letters import show_letters
from streamboost.pipelines.service.pages.causes.record import (
    Traces,
    show_missing,
    show_record,
    what_became,
)
from streamboost.pipelines.service.pages.causes.records import MOST, Found, show_records
from streamboost.pipelines.service.pages.causes.steering import Steering
from streamboost.pipelines.service.pages.causes.versions import Versions, as_copies
from streamboost.pipelines.service.pages.layout import Header, main
from streamboost.pipelines.service.pages.standing import Activity
from streamboost.pipelines.service.pages.tables import rolled_back
from streamboost.pipelines.service.pages.view import EVERY, Feed, View
from streamboost.pipelines.service.pages.widgets import Tag
from streamboost.pipelines.status.choice import Choice
from streamboost.pipelines.status.reader import Status

__all__ = ["add_causes"]

PATIENCE = 30.0
LIKE = 2_000
"""Labelled records among which the nearest are looked for: the newest."""

FARTHEST = 1_000_000
"""Records that may be passed over: more than are ever kept."""

LAST = 10**15
"""A version beyond all that any pipeline comes to."""

Show = Callable[[View], Awaitable[None]]


class _Pages:
    """What these pages have in common: whom they are for, their top, and the line below."""

    def __init__(self, pipelines: Mapping[str, Served], feeds: Mapping[str, Feed]) -> None:
        self._pipelines = pipelines
        self._feeds = feeds

    def served(self, name: str | None) -> Served:
        """Return the pipeline a page is about: the only one where none is named."""
        if name is None and len(self._pipelines) == 1:
            return next(iter(self._pipelines.values()))
        found = None if name is None else self._pipelines.get(name)
        if found is None:
            raise HTTPException(404, "there is no pipeline of that name")
        return found

    async def afresh(self, served: Served) -> View:
        """Return the status with all that labels tell by now."""
        return await self._feeds[served.name].look(afresh=True)

    async def open(
        self, here: str, title: str, served: Served, request: Request
    ) -> tuple[View, Tag, Callable[[Show | None], Awaitable[None]]]:
        """Begin a page; return the status, its main part, and what keeps the rest of it live."""
        name = served.name
        header = Header(here, name, list(self._pipelines), request.state.person)
        with main(title) as content:
            activity = Activity()
        view = await self._feeds[name].look()

        async def live(show: Show | None = None) -> None:
            async def again() -> None:
                found = await self._feeds[name].look()
                header.show(found)
                activity.show(found)
                if show is not None:
                    await show(found)

            await again()
            ui.timer(EVERY, again, immediate=False)

        return view, content, live


def add_causes(pipelines: Mapping[str, Served], feeds: Mapping[str, Feed]) -> None:
    """Add the pages."""
    pages = _Pages(pipelines, feeds)
    _add_record(pages)
    _add_records(pages)
    _add_versions(pages)
    _add_others(pages)


def _add_record(pages: _Pages) -> None:
    @ui.page("/record", title="Record | streamboost", response_timeout=PATIENCE)
    async def record(request: Request, id: str = "", pipeline: str | None = None) -> None:
        served = pages.served(pipeline)
        found = await asyncio.to_thread(served.status.judged, id)
        title = f"Record {id}" if id else "Which record?"
        view, content, live = await pages.open("/record", title, served, request)
        with content:
            if found is not None:
                others = await asyncio.to_thread(served.status.confused, None, None, LIKE)
                person = request.state.person
                see = served.blindfold.seen_by
                seen, *others = await asyncio.to_thread(see, person, [found, *others])
                may = await asyncio.to_thread(_may_change, served, person, found)
                show_record(seen, view, others, may_change=may)
            else:
                alike = await asyncio.to_thread(served.status.ids_like, id)
                traces = await asyncio.to_thread(_traces, served, request.state.person, id)
                show_missing(what_became(id, traces, view), alike, served.name)
        await live(None)


def _add_records(pages: _Pages) -> None:
    @ui.page("/records", title="Records | streamboost", response_timeout=PATIENCE)
    async def records(
        request: Request,
        pipeline: str | None = None,
        true: str | None = None,
        predicted: str | None = None,
        by: str | None = None,
        since: int | None = None,
        until: int | None = None,
        wrong: bool = False,
        contested: bool = False,
        disputed: bool = False,
        after: int = 0,
    ) -> None:
        served = pages.served(pipeline)
        choice = Choice(
            truth=true or None,
            said=predicted or None,
            by=by or None,
            since=_version(since),
            until=_version(until),
            wrong=wrong,
            contested=contested,
            # Where it is open what is right nobody knows of a mistake.
            disputed=disputed or (False if wrong else None),
        )
        offset = min(max(after, 0), FARTHEST)
        found = await asyncio.to_thread(_chosen, served, request.state.person, choice, offset)
        view, content, live = await pages.open("/records", "Records", served, request)
        with content:
            show_records(found, view, choice, offset)
        await live(None)


def _version(number: int | None) -> int | None:
    """Return a version's number, or one beyond all there are: SQLite has none above 64 bits."""
    return None if number is None else min(max(number, 0), LAST)


def _chosen(served: Served, person: Person, choice: Choice, offset: int) -> Found:
    """Return the records of a choice after the first `offset`, for `person` to see."""
    status, blindfold = served.status, served.blindfold
    records, sums = status.chosen(choice, MOST, offset), status.tally(choice)
    # What a choice goes by must not tell of a record what is hidden of it.
    bounds = choice.said, choice.since, choice.until
    by_guess = choice.wrong or any(one is not None for one in bounds)
    seen = blindfold.seen_by(person, records, chosen=by_guess)
    total = sum(n for *_, n in sums)
    more = offset + MOST < total
    is_left_out = choice.disputed is False
    if blindfold.hides_from(person):
        disputed = None if is_left_out else 0
        return Found(seen, None if by_guess else total, more, disputed=disputed)
    disputed = status.count(replace(choice, disputed=True)) if is_left_out else 0
    return Found(seen, total, more, sums, disputed)


def _traces(served: Served, person: Person, id: str) -> Traces:
    """Return what is there of a record that is not kept, for `person` to see."""
    found = Traces.of(id, served.status)
    if found.prediction is None:
        return found
    (seen,) = served.blindfold.seen_by(person, [found.prediction])
    return replace(found, prediction=seen)


def _may_change(served: Served, person: Person, found: Status) -> bool:
    """Tell whether a record's label, if it has one, is `person`'s to change."""
    truth = found["truth"]
    return truth is not None and served.queue.correctable(person, found["id"], truth) is not None


def _add_versions(pages: _Pages) -> None:
    @ui.page("/versions", title="Versions | streamboost", response_timeout=PATIENCE)
    async def versions(
        request: Request, pipeline: str | None = None, a: int | None = None, b: str = ""
    ) -> None:
        served = pages.served(pipeline)
        known = served.status.versions
        found = await asyncio.to_thread(known)
        await pages.afresh(served)  # the first line judges by the same labels
        view, content, live = await pages.open("/versions", "Versions", served, request)
        with content:
            steering = Steering(served, request.state.person)
            until = int(b) if b.isdecimal() and len(b) < len(str(LAST)) else None
            shown = Versions(found, view.evidence.told, view, a, until)
        steering.choose(shown.sides, as_copies(found, rolled_back(view)))

        async def show(now: View) -> None:
            if shown.is_old(now):
                found = await asyncio.to_thread(known)
                now = await pages.afresh(served)
                shown.update(found, now.evidence.told, now)
                steering.choose(shown.sides, as_copies(found, rolled_back(now)))
            steering.show(now)

        await live(show)


def _add_others(pages: _Pages) -> None:
    @ui.page("/features", title="Features | streamboost", response_timeout=PATIENCE)
    async def features(
        request: Request, pipeline: str | None = None, feature: str | None = None
    ) -> None:
        served = pages.served(pipeline)
        await pages.afresh(served)  # what labels tell is shown, too
        view, content, live = await pages.open("/features", "Features", served, request)
        with content:
            show_features(view, feature, view.evidence.told)
        await live(None)

    @ui.page("/letters", title="Dead letters | streamboost", response_timeout=PATIENCE)
    async def letters(
        request: Request, pipeline: str | None = None, reason: str | None = None
    ) -> None:
        served = pages.served(pipeline)
        found = await asyncio.to_thread(served.status.dead_letters)
        view, content, live = await pages.open("/letters", "Dead letters", served, request)
        total = int(view.document("join").get("dead_letters") or 0)
        with content:
            show_letters(found, max(total, len(found)), served, request.state.person, reason)
        await live(None)
