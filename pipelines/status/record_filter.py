"""Filter for labelled records, and its conditions in SQL."""

from dataclasses import dataclass

from streamboost.pipelines.status.annotators import SURE


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Filter for labelled records. None (and False, except for `disputed`) means no restriction.

    Attributes
    ----------
    truth : the label of the record
    said : the predicted label
    by : an annotator with a vote on the record, see `current_votes`
    since, until : the first and last version that made the prediction
    wrong : whether the prediction differs from the label
    contested : whether the votes of two annotators differ; with `by`, one of them is `by`
    disputed : whether another class has at least as many votes as `truth`; False leaves these out
    confident : whether the prediction had a probability of at least `SURE`
    closed : whether to leave out records with an open request
    """

    truth: str | None = None
    said: str | None = None
    by: str | None = None
    since: int | None = None
    wrong: bool = False
    contested: bool = False
    until: int | None = None
    disputed: bool | None = None
    confident: bool = False
    closed: bool = False

    @property
    def depends_on_prediction(self) -> bool:
        """Whether the filter has a condition on the prediction or on its version."""
        bounds = self.said, self.since, self.until
        return self.wrong or self.confident or any(one is not None for one in bounds)


_SAID_LAST = """(
    SELECT json_extract(value, '$[2]') AS source, max(key), CASE json_type(value, '$[1]')
        WHEN 'true' THEN 'True' WHEN 'false' THEN 'False'
        ELSE CAST(json_extract(value, '$[1]') AS TEXT) END AS label
    FROM json_each(records.value, '$.labels') WHERE key > coalesce((
        SELECT max(key) FROM json_each(records.value, '$.labels')
        WHERE json_type(value, '$[1]') = 'null'
    ), -1) GROUP BY source, CASE WHEN source IS NULL THEN key END
)"""
"""Votes on a record as text, as in `current_votes`: all labels without a name count.

SQLite takes the columns next to `max(key)` from the row with the maximum.
"""

DISPUTED = f"""EXISTS (
    SELECT 1 FROM {_SAID_LAST} AS other WHERE other.label <> truth GROUP BY other.label
    HAVING count(*) >= max(1, (SELECT count(*) FROM {_SAID_LAST} AS own WHERE own.label = truth))
)"""
"""Condition for a row of ``records`` with a disputed label."""

CHOSEN = f"""truth IS NOT NULL
AND (:truth IS NULL OR truth = :truth)
AND (:said IS NULL OR said = :said)
AND (NOT :wrong OR said <> truth)
AND (NOT :confident OR EXISTS (
    SELECT 1 FROM json_each(records.value, '$.probabilities') AS one
    WHERE one.key = said AND one.value >= {SURE}
))
AND (:since IS NULL OR json_extract(value, '$.version') >= :since)
AND (:until IS NULL OR json_extract(value, '$.version') <= :until)
AND (:by IS NULL OR EXISTS (SELECT 1 FROM {_SAID_LAST} AS own WHERE own.source = :by))
AND (NOT :contested OR EXISTS (
    SELECT 1 FROM {_SAID_LAST} AS own JOIN {_SAID_LAST} AS other ON own.label <> other.label
    WHERE :by IS NULL OR own.source = :by
))
AND (:disputed IS NULL OR :disputed = {DISPUTED})
AND (NOT :closed OR id NOT IN (SELECT id FROM requests))"""
"""Condition of a filter on a row of ``records``, with the filter's fields as named values."""
