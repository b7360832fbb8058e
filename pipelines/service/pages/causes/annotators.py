"""Who gave labels, and how often others say otherwise, beyond chance or not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamboost.pipelines.service.pages.causes.chance import CHANCE, Share, as_many
from streamboost.pipelines.service.pages.tables import Cell, Column, Rows, Table
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.status.formatting import NOTHING, amount, percent, plural

__all__ = ["MOST", "Compared", "annotators", "contradicted", "stand_out"]

MOST = 50
"""Annotators shown: those who label against the others most often, as far as is sure."""

_LEAST = 10
"""Labels compared, below which nobody is named."""

_COLUMNS = (
    Column("Annotator", "words"),
    Column("Labels"),
    Column("Against the others"),
    Column("Outvoted"),
)


@dataclass(frozen=True, slots=True)
class Compared:
    """How many labels of somebody's were compared with what others say, and are against it."""

    against: int
    n: int

    @property
    def share(self) -> Share | None:
        """The share of them that is; None: none were compared."""
        return Share(self.against / self.n, self.n) if self.n else None


def stand_out(found: Mapping[str, Compared]) -> list[str]:
    """Return who labels against the others more often than all but them, beyond chance.

    The one is first who does most often; chance is held to naming anybody, of all there are.
    """
    against, n = sum(one.against for one in found.values()), sum(one.n for one in found.values())
    named = [
        (-one.against / one.n, name)
        for name, one in found.items()
        if one.n >= _LEAST and as_many(one.against, one.n, against, n) < CHANCE / len(found)
    ]
    return [name for _, name in sorted(named)]


def contradicted(view: View) -> list[str]:
    """Return who labels against the others beyond chance; whoever does most often is first."""
    return view.once(contradicted, lambda: stand_out(_compared(view)))


def _compared(view: View) -> dict[str, Compared]:
    found: Mapping[str, Mapping[str, int]] = view.document("annotators")
    return {
        name: Compared(one.get("against", 0), one.get("compared", 0)) for name, one in found.items()
    }


def annotators(view: View) -> Table:
    """Show of each who gave labels how often others say otherwise: who stands out comes first."""
    found: Mapping[str, Mapping[str, int]] = view.document("annotators")
    if not found:
        return Table("Annotators", _COLUMNS, [], "No label says who gave it.")
    compared, worst = _compared(view), contradicted(view)
    rest = sorted(found.keys() - {*worst}, key=lambda name: (-_least(compared[name]), name))
    pipeline = view.document("pipeline").get("name")
    rows: Rows = [
        [
            Cell(name, link=page_of("/records", pipeline, by=name)),
            amount(found[name]["labels"]),
            _against(compared[name], name in worst),
            amount(found[name].get("outvoted", 0)) if found[name].get("together") else NOTHING,
        ]
        for name in (*worst, *rest)[:MOST]
    ]
    return Table("Annotators", _COLUMNS, rows, _said(compared, worst))


def _least(one: Compared) -> float:
    return -1.0 if one.share is None else round(one.share.interval()[0], 6)


def _against(one: Compared, is_worst: bool) -> Cell:
    share = one.share
    if share is None:
        return Cell(NOTHING)
    low, high = share.interval()
    text = f"{one.against:,} of {one.n:,}: {100 * low:.0f} to {100 * high:.0f} %"
    return Cell(text, bar=share.value, colour="bad" if is_worst else "series-1")


def _said(found: Mapping[str, Compared], worst: Sequence[str]) -> str:
    """Say who stands out, and by what; or that nobody does."""
    names = f"{plural(len(found), 'source')} gave labels"
    if not any(one.n for one in found.values()):
        return f"{names}; nothing tells yet whose are against the others."
    if not worst:
        return f"{names}; nobody labels against the others more often than chance explains."
    first = found[worst[0]]
    others = [one for name, one in found.items() if name != worst[0]]
    against, n = sum(one.against for one in others), sum(one.n for one in others)
    more = f" So {'do' if len(worst) > 2 else 'does'} {', '.join(worst[1:])}." * (len(worst) > 1)
    return (
        f"{worst[0]} labels against the others most often, and more often than chance explains: "
        f"{first.against:,} of {first.n:,} labels compared, {percent(first.against / first.n)}; of "
        f"all others' labels {percent(against / n)}.{more} {names}."
    )
