"""Label requests: messages with the features, prediction and utility of a record."""

from collections.abc import Sequence
from typing import Any

import msgspec

from streamboost.checks import pad_missing_columns
from streamboost.connectors.base import ForwardedPayloads
from streamboost.connectors.messages.decoding import Records
from streamboost.connectors.messages.labels import label_to_json
from streamboost.connectors.messages.outgoing import Request, features_by_name
from streamboost.connectors.messages.schema import Schema
from streamboost.connectors.messages.values import decode_fields
from streamboost.learner.label_quality import RelabelRequests
from streamboost.learner.learner import StreamLearner
from streamboost.pipelines.runner.label_join import LabelJoin
from streamboost.pipelines.runner.record_window import HeldRecord
from streamboost.predictions import Scored
from streamboost.query.config import Requests


def build_requests(
    requests: Requests,
    relabel_requests: RelabelRequests,
    records: Records,
    scored: Scored,
    join: LabelJoin,
    learner: StreamLearner,
    schema: Schema,
    sequence: int,
) -> ForwardedPayloads:
    """Return encoded label requests and relabel requests, with the committee's predictions.

    `scored` are the predictions for the batch's `records`. If a request is about a record of an
    earlier batch, all requested records are predicted again.
    """
    wanted = [*requests.ids, *relabel_requests.ids]
    held = [join.held_record(id) for id in wanted]
    rows = {id: row for row, id in enumerate(records.ids)} if wanted else {}
    if not rows.keys() >= set(wanted):
        scored = learner.score(
            pad_missing_columns([record.x for record in held], learner.n_features or 0)
        )
        rows = dict(zip(wanted, range(len(held)), strict=True))
    expires = join.expires_after.end_time_ms(join.now)
    utility = [*requests.utility.tolist(), *relabel_requests.doubt.tolist()]
    propensity = [*requests.propensity.tolist(), *[1.0] * len(relabel_requests)]
    excluded_annotators: list[Sequence[str] | None] = [
        *[None] * len(requests),
        *relabel_requests.excluded_annotators,
    ]
    encoded_requests = [
        build_request(
            id,
            held[place],
            scored,
            rows[id],
            schema=schema,
            utility=utility[place],
            propensity=propensity[place],
            expires=expires,
            sequence=sequence,
            excluded_annotators=excluded_annotators[place],
        ).encode()
        for place, id in enumerate(wanted)
    ]
    here = dict(zip(records.ids, records.messages, strict=True)) if wanted else {}
    about = [here.get(id) or one.metadata for id, one in zip(wanted, held, strict=True)]
    return ForwardedPayloads(encoded_requests, about)


def build_request(
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
    excluded_annotators: Sequence[str] | None = None,
    partition: int | None = None,
) -> Request:
    """Return the label request for a record.

    Row `row` of `scored` is the current prediction for the record. `excluded_annotators` names the
    annotators who must not answer a relabel request.
    """
    probabilities = scored.probabilities[row].tolist()
    return Request(
        id=id,
        time=record.time,
        features=feature_values(schema.features, record),
        label=label_to_json(scored.labels[row], schema.label_kind),
        probabilities=dict(zip(scored.classes.tolist(), probabilities, strict=True)),
        utility=utility,
        propensity=propensity,
        expires=expires,
        sequence=sequence,
        excluded_annotators=msgspec.UNSET if excluded_annotators is None else excluded_annotators,
        partition=partition,
    )


def feature_values(features: Sequence[str], record: HeldRecord) -> dict[str, Any]:
    """Return a record's field values, keyed by name; if none are stored, its numeric features."""
    if record.values is not None:
        return decode_fields(features, record.values)
    return features_by_name(features, record.x[-len(features) :])  # behind the labels' lags
