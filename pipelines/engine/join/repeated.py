"""Records whose id is that of one that is held already."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamboost.connectors.base import Message
from streamboost.connectors.messages.decoded import Records
from streamboost.connectors.messages.written import DeadLetter

if TYPE_CHECKING:
    from streamboost.pipelines.engine.join.join import Join

__all__ = ["first_ones"]


def first_ones(
    join: "Join", records: Records, labels: Sequence[Message], time: int
) -> tuple[Records, list[DeadLetter]]:
    """Return the records whose ids `join` does not hold, and dead letters of the others.

    Those are passed over that are `labels`, too. `time` is that of the batch, in milliseconds.
    """
    fresh = join.fresh(records.ids)
    if all(fresh):
        return records, []
    told = {(message.partition, message.offset) for message in labels}
    dead = []
    for name, message, is_first in zip(records.ids, records.messages, fresh, strict=True):
        if not is_first and (message.partition, message.offset) not in told:
            detail = (
                f"a record with the id {name!r} is held already: ids must not come again within "
                f"join_window ({join.window})"
            )
            letter = DeadLetter.of(message, "duplicate_id", detail, source="records", time=time)
            dead.append(letter)
    return records.take([row for row, is_first in enumerate(fresh) if is_first]), dead
