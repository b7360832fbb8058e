"""What is asked, with all that somebody needs to answer it."""

from collections.abc import Sequence
from typing import Any

from streamboost.active.query import Requests
from streamboost.connectors.messages.labels import as_json
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.written import Request, features_of
from streamboost.pipelines.engine.join import Join
from streamboost.pipelines.engine.join.held_records import HeldRecord, unpacked
from streamboost.stream.checks import as_wide
from streamboost.stream.learner import StreamLearner
from streamboost.stream.scoring import Scored

__all__ = ["request_of", "requests_of"]


def requests_of(
    asked: Requests, join: Join, learner: StreamLearner, schema: Schema, sequence: int
) -> list[bytes]:
    """Put what is asked for into messages, as the committee that asks sees it."""
    held = [join.held(id) for id in asked.ids]
    scored = learner.score(as_wide([record.x for record in held], learner.n_features or 0))
    expires = join.expires_after.end(join.now)
    return [
        request_of(
            id,
            held[row],
            scored,
            row,
            schema=schema,
            utility=float(asked.utility[row]),
            propensity=float(asked.propensity[row]),
            expires=expires,
            sequence=sequence,
        ).encode()
        for row, id in enumerate(asked.ids)
    ]


def request_of(
    id: str,
    record: HeldRecord,
    scored: Scored,
    row: int,
    *,
    schema: Schema,
    utility: float,
    propensity: float,
    expires: int | None,
    sequence: int,
    partition: int | None = None,
) -> Request:
    """Return the request of a record.

    Row `row` of `scored` is what is predicted for it now.
    """
    probabilities = scored.probabilities[row].tolist()
    return Request(
        id=id,
        time=record.time,
        features=shown(schema.features, record),
        label=as_json(scored.labels[row], schema.labels_are),
        probabilities=dict(zip(scored.classes.tolist(), probabilities, strict=True)),
        utility=utility,
        propensity=propensity,
        expires=expires,
        sequence=sequence,
        partition=partition,
    )


def shown(features: Sequence[str], record: HeldRecord) -> dict[str, Any]:
    """Return what a record holds, as it came, or by its row where nothing else is kept."""
    if record.values is not None:
        return dict(zip(features, unpacked(record.values), strict=False))
    return features_of(features, record.x[-len(features) :])  # behind the labels' lags
