"""What is asked, with all that somebody needs to answer it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from streamboost.active.query import Requests
from streamboost.connectors.base import Following
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.labels import as_json
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.written import Request, features_of
from streamboost.pipelines.engine.held_records import HeldRecord
from streamboost.pipelines.engine.join import Join
from streamboost.pipelines.engine.values import as_fields
from streamboost.stream.checks import as_wide
from streamboost.stream.doubts import Relabels
from streamboost.stream.learner import StreamLearner
from streamboost.stream.scoring import Scored

__all__ = ["request_of", "requests_of"]


def requests_of(
    asked: Requests,
    again: Relabels,
    records: Records,
    scored: Scored,
    join: Join,
    learner: StreamLearner,
    schema: Schema,
    sequence: int,
) -> Following:
    """Put what is asked for, and `again`, into messages, as the committee that asks sees it.

    `scored` is what is predicted for the batch's `records`; earlier ones are scored here.
    """
    wanted = [*asked.ids, *again.ids]
    held = [join.held(id) for id in wanted]
    rows = {id: row for row, id in enumerate(records.ids)} if wanted else {}
    if not rows.keys() >= set(wanted):
        scored = learner.score(as_wide([record.x for record in held], learner.n_features or 0))
        rows = dict(zip(wanted, range(len(held)), strict=True))
    expires = join.expires_after.end(join.now)
    utility = [*asked.utility.tolist(), *again.doubt.tolist()]
    propensity = [*asked.propensity.tolist(), *[1.0] * len(again)]
    not_by: list[Sequence[str] | None] = [*[None] * len(asked), *again.not_by]
    requests = [
        request_of(
            id,
            held[place],
            scored,
            rows[id],
            schema=schema,
            utility=utility[place],
            propensity=propensity[place],
            expires=expires,
            sequence=sequence,
            not_by=not_by[place],
        ).encode()
        for place, id in enumerate(wanted)
    ]
    here = dict(zip(records.ids, records.messages, strict=True)) if wanted else {}
    about = [here.get(id) or one.carried for id, one in zip(wanted, held, strict=True)]
    return Following(requests, about)


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
    not_by: Sequence[str] | None = None,
    partition: int | None = None,
) -> Request:
    """Return the request of a record.

    Row `row` of `scored` is what is predicted for it now. `not_by` says who must not answer what is
    asked again.
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
        not_by=msgspec.UNSET if not_by is None else not_by,
        partition=partition,
    )


def shown(features: Sequence[str], record: HeldRecord) -> dict[str, Any]:
    """Return what a record holds, as it came, or by its row where nothing else is kept."""
    if record.values is not None:
        return as_fields(features, record.values)
    return features_of(features, record.x[-len(features) :])  # behind the labels' lags
