"""Fast path for small predict requests, which are answered without FastAPI's overhead."""

import json
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamboost.errors import StreamBoostError
from streamboost.pipelines.service.api.predict import MOST, json_response
from streamboost.pipelines.service.labelling.served import ServedPipeline
from streamboost.pipelines.service.scoring import CheckpointScorer

_BEFORE, _AFTER = "/api/v1/pipelines/", "/predict"
_PLAIN = (b"content-type", b"application/json")
_SHORT = 4_096
"""Maximum size in bytes of a body that is answered in the event loop."""


class PredictFastPath:
    """ASGI middleware that answers small predict requests, and passes all others to `app`.

    Invalid requests are passed to `app`, too. The middleware runs inside the guard, which has
    stored ``person`` in the request's state.
    """

    def __init__(self, app: ASGIApp, pipelines: Mapping[str, ServedPipeline]) -> None:
        self.app = app
        self._pipelines = pipelines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a small predict request, or pass the request to `app`."""
        scoring = self._permitted_scorer(scope)
        if scoring is None:
            await self.app(scope, receive, send)
            return
        message = await receive()
        found = _predict_small_request(scoring, message)
        if found is None:
            await self.app(scope, _prepend_message(message, receive), send)
        else:
            await json_response(found)(scope, receive, send)

    def _permitted_scorer(self, scope: Scope) -> CheckpointScorer | None:
        if scope["type"] != "http" or scope["method"] != "POST" or _PLAIN not in scope["headers"]:
            return None
        path: str = scope["path"]
        if not (path.startswith(_BEFORE) and path.endswith(_AFTER)):
            return None
        served = self._pipelines.get(path[len(_BEFORE) : -len(_AFTER)])
        if served is None or not scope["state"]["person"].may_score:
            return None
        return served.scoring


def _predict_small_request(scoring: CheckpointScorer, message: Message) -> dict[str, Any] | None:
    """Return the predictions; None if the body is too large or invalid, or the scorer is busy."""
    body: bytes = message.get("body", b"")
    if message.get("more_body", False) or len(body) > _SHORT or not scoring.is_ready:
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


def _prepend_message(message: Message, receive: Receive) -> Receive:
    pending = [message]

    async def receive_first_or_next() -> Message:
        return pending.pop() if pending else await receive()

    return receive_first_or_next
