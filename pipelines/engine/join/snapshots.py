"""A join as arrays, and back."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from streamboost.pipelines.engine.join.held_records import (
    HeldRecord,
    Window,
)
from streamboost.pipelines.engine.join.joined import (
    Gone,
    JoinCounts,
    Request,
    Waiting,
    WaitingLabels,
)
from streamboost.pipelines.engine.join.values import values_from_arrays, values_in_arrays
from streamboost.pipelines.span import Lived, Moment
from streamboost.storage import Arrays, pack_json, unpack_json
from streamboost.stream.checks import as_wide

if TYPE_CHECKING:
    from streamboost.pipelines.engine.join.join import Join

__all__ = ["pack", "unpack"]


def pack(join: "Join") -> Arrays:
    """Return everything the join holds."""
    state = {
        "counts": asdict(join.counts),
        "now": join._now,
        "met": join._met,
        "lived": [(x.moment, x.counted) for x in (join._for_records, join._for_labels)],
        "window": join._window.to_json(),
        "pinned": [(id, a.arrived, a.predicted, a.time) for id, a in join._pinned.items()],
        "requests": [(id, *request) for id, request in join._requests.items()],
        "answers": list(join._answers.items()),
        "lapsed": sorted(join._lapsed),
        "gone": [(id, *gone) for id, gone in join._gone.items()],
        "waiting": [(one.id, one.since, *one[2:]) for one in join._waiting],
    }
    pinned = list(join._pinned.values())
    held = [*join._window.values(), *(record.values for record in pinned)]
    return {
        "state": pack_json(state),
        "window": join._window.rows(),
        "pinned": as_wide([record.x for record in pinned], join._window.n_features),
        **values_in_arrays(held),
    }


def unpack(join: "Join", arrays: Arrays) -> None:
    """Let `join` be the one that `pack` took apart."""
    state = unpack_json(arrays["state"])
    join.counts = JoinCounts(**state["counts"])
    join._now = Moment(*state["now"])
    n = len(arrays["window"])
    values = values_from_arrays(arrays, n + len(state["pinned"]))
    join._window = Window.restore(state["window"], arrays["window"], values[:n])
    join._pinned = {
        id: HeldRecord(x, Moment(*arrived), predicted, time, held)
        for (id, arrived, predicted, time), x, held in zip(
            state["pinned"], arrays["pinned"], values[n:], strict=True
        )
    }
    join._met = Moment(*state.get("met", state["now"]))
    lived = state.get("lived", [[state["now"]] * 2] * 2)  # release 0.1 counted everything
    join._for_records, join._for_labels = (Lived(*(Moment(*m) for m in x)) for x in lived)
    join._requests = {
        id: Request(Moment(*at), p, Moment(*(asked or [at])[0]), *asked[1:])
        for id, at, p, *asked in state["requests"]
    }
    join._answers = dict(state["answers"])
    join._lapsed = set(state["lapsed"])
    join._gone = {id: Gone(Moment(*at), *rest) for id, at, *rest in state["gone"]}
    join._waiting = WaitingLabels(
        Waiting(Moment(*at), id, *rest) for id, at, *rest in state["waiting"]
    )
