"""The way past FastAPI for a few records to predict, which takes it longer than predicting them."""

import json
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamboost.errors import StreamBoostError
from streamboost.pipelines.service.api.predict import MOST, answer
from streamboost.pipelines.service.labelling.served import Served
from streamboost.pipelines.service.scoring import Scoring

__all__ = ["Shortcut"]

_BEFORE, _AFTER = "/api/v1/pipelines/", "/predict"
_PLAIN = (b"content-type", b"application/json")
_SHORT = 4_096
"""Bytes of a body whose records keep nobody else waiting, whatever they hold."""


class Shortcut:
    """Answers what can be predicted at once, and leaves all else to `app`, errors included.

    It comes after the guard, which has put ``person`` into the request's state.
    """

    def __init__(self, app: ASGIApp, pipelines: Mapping[str, Served]) -> None:
        self.app = app
        self._pipelines = pipelines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer records asked for in a short body, or have `app` answer."""
        scoring = self._scoring(scope)
        if scoring is None:
            await self.app(scope, receive, send)
            return
        message = await receive()
        found = _predicted(scoring, message)
        if found is None:
            await self.app(scope, _beginning(message, receive), send)
        else:
            await answer(found)(scope, receive, send)

    def _scoring(self, scope: Scope) -> Scoring | None:
        """Return what predicts the records of a request that may be answered here."""
        if scope["type"] != "http" or scope["method"] != "POST" or _PLAIN not in scope["headers"]:
            return None
        path: str = scope["path"]
        if not (path.startswith(_BEFORE) and path.endswith(_AFTER)):
            return None
        served = self._pipelines.get(path[len(_BEFORE) : -len(_AFTER)])
        if served is None or not scope["state"]["person"].may_score:
            return None
        return served.scoring


def _predicted(scoring: Scoring, message: Message) -> dict[str, Any] | None:
    """Return what is predicted of the records of a body; None: somebody else is to look at it."""
    body: bytes = message.get("body", b"")
    if message.get("more_body", False) or len(body) > _SHORT or not scoring.is_at_hand:
        return None
    try:
        given = json.loads(body)
        if type(given) is not dict or given.keys() != {"records"}:
            return None
        records = given["records"]
        if type(records) is not list or not 1 <= len(records) <= MOST:
            return None
        if any(type(record) is not dict for record in records):
            return None
        return scoring.predict(records)
    except (ValueError, RecursionError, StreamBoostError):
        return None


def _beginning(message: Message, receive: Receive) -> Receive:
    """Return `receive` that gives `message` first, which was taken from it."""
    taken = [message]

    async def begun() -> Message:
        return taken.pop() if taken else await receive()

    return begun
