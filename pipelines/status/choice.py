"""Which of the labelled records are meant, and the same in SQL."""

from dataclasses import dataclass

__all__ = ["CHOSEN", "DISPUTED", "Choice"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Some of the labelled records; None, and False but for one, leave nothing out.

    They are `truth`, were predicted as `said`, have a label of `by` that stands, were predicted
    by version `since` or a later one, by `until` or an earlier one, and `wrong`. They are
    `contested` where the newest labels of two annotators differ, one of them being `by`, if that
    is named, and `disputed` where as many say that they are something else as say `truth`: False
    leaves those out.
    """

    truth: str | None = None
    said: str | None = None
    by: str | None = None
    since: int | None = None
    wrong: bool = False
    contested: bool = False
    until: int | None = None
    disputed: bool | None = None


_SAID_LAST = """(
    SELECT json_extract(value, '$[2]') AS source, max(key), CASE json_type(value, '$[1]')
        WHEN 'true' THEN 'True' WHEN 'false' THEN 'False'
        ELSE CAST(json_extract(value, '$[1]') AS TEXT) END AS label
    FROM json_each(records.value, '$.labels') WHERE key > coalesce((
        SELECT max(key) FROM json_each(records.value, '$.labels')
        WHERE json_type(value, '$[1]') = 'null'
    ), -1) GROUP BY source, CASE WHEN source IS NULL THEN key END
)"""
"""What each said of a record, as text, as `votes_of` has it: all that was said without a name.

Columns beside a `max` are of the row that has it.
"""

DISPUTED = f"""EXISTS (
    SELECT 1 FROM {_SAID_LAST} AS other WHERE other.label <> truth GROUP BY other.label
    HAVING count(*) >= max(1, (SELECT count(*) FROM {_SAID_LAST} AS own WHERE own.label = truth))
)"""
"""Whether a row of ``records`` is disputed."""

CHOSEN = f"""truth IS NOT NULL
AND (:truth IS NULL OR truth = :truth)
AND (:said IS NULL OR said = :said)
AND (NOT :wrong OR said <> truth)
AND (:since IS NULL OR json_extract(value, '$.version') >= :since)
AND (:until IS NULL OR json_extract(value, '$.version') <= :until)
AND (:by IS NULL OR EXISTS (SELECT 1 FROM {_SAID_LAST} AS own WHERE own.source = :by))
AND (NOT :contested OR EXISTS (
    SELECT 1 FROM {_SAID_LAST} AS own JOIN {_SAID_LAST} AS other ON own.label <> other.label
    WHERE :by IS NULL OR own.source = :by
))
AND (:disputed IS NULL OR :disputed = {DISPUTED})"""
"""What a choice asks of a row of ``records``, with its fields as named values."""
