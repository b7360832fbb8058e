"""Who gave labels, how often they are right as far as others and predictions tell, and who errs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from streamboost.pipelines.service.pages.tables import Cell, Column, Rows, Table
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.wording import NOTHING, amount, estimate, percent, plural

__all__ = ["MOST", "Checked", "annotators", "checked", "stand_out"]

MOST = 50
"""Annotators shown: those with the most labels."""

_PRIOR, _PRIOR_WRONG = 5.0, 0.5
"""Checked labels that a stranger is thought to have given, and how many of them wrong."""

_ROUNDS = 20
"""Times that blame and shares are made of each other."""

_CHANCE = 0.05
"""How often somebody is named although all err alike, at most."""

_LEAST = 10
"""Labels that something tells of, below which nobody is named."""

_COLUMNS = (
    Column("Annotator", "words"),
    Column("Labels"),
    Column("As others said"),
    Column("As was surely predicted"),
    Column("Right, by both"),
)


@dataclass(frozen=True, slots=True)
class Checked:
    """Somebody's labels that something tells of: how many there are, and are likely right."""

    right: float
    given: int

    def interval(self, level: float = _CHANCE) -> dict[str, float] | None:
        """Return the share that is right, with Wilson's interval (1927); None: nothing tells.

        >>> found = Checked(9.0, 27).interval()
        >>> round(found["low"], 3), round(found["value"], 3), round(found["high"], 3)
        (0.186, 0.333, 0.522)
        """
        n = self.given
        if not n:
            return None
        share, z = self.right / n, NormalDist().inv_cdf(1.0 - level / 2)
        middle = (share + z * z / (2 * n)) / (1 + z * z / n)
        margin = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        low, high = max(middle - margin, 0.0), min(middle + margin, 1.0)
        return {"value": share, "low": low, "high": high}

    def __sub__(self, other: "Checked") -> "Checked":
        return Checked(self.right - other.right, self.given - other.given)


def checked(found: Mapping[str, Mapping[str, int]]) -> dict[str, Checked]:
    """Return of each annotator what others and confident predictions say of the labels.

    Where two say different things of one record, one of them at least is wrong: that counts
    against each as far as what else is known of them, and of the others who were contradicted,
    makes likely (expectation maximization, as in Dawid and Skene 1979, of the counts alone).
    """
    against = {name: one["shared"] - one["agreed"] for name, one in found.items()}
    alone = {name: one["judged"] - one["confirmed"] for name, one in found.items()}
    given = {name: one["judged"] + one["shared"] for name, one in found.items()}
    blame = {name: n / 2 for name, n in against.items()}
    for _ in range(_ROUNDS):
        errs = {
            name: (alone[name] + blame[name] + _PRIOR_WRONG) / (given[name] + _PRIOR)
            for name in found
        }
        total, weighed = sum(against.values()), sum(against[name] * errs[name] for name in found)
        for name, n in against.items():
            others = total - n
            theirs = (weighed - n * errs[name]) / others if others else _PRIOR_WRONG / _PRIOR
            blame[name] = n * errs[name] / (errs[name] + theirs)
    return {name: Checked(given[name] - alone[name] - blame[name], given[name]) for name in found}


def stand_out(found: Mapping[str, Checked]) -> list[str]:
    """Return who is right less often than the others together, by more than chance, worst first.

    Their intervals, wide enough for as many as are compared, must not meet.
    """
    everybody = Checked(
        sum(one.right for one in found.values()), sum(one.given for one in found.values())
    )
    level = _CHANCE / max(len(found), 1)
    named: list[tuple[float, str]] = []
    for name, one in found.items():
        own, others = one.interval(level), (everybody - one).interval(level)
        if one.given < _LEAST:
            continue
        if own is not None and others is not None and own["high"] < others["low"]:
            named.append((own["value"], name))
    return [name for _, name in sorted(named)]


def annotators(view: View) -> Table:
    """Show what the labels of each who gave some came to: who stands out, then the most labels."""
    found: Mapping[str, Mapping[str, int]] = view.document("annotators")
    if not found:
        return Table("Annotators", _COLUMNS, [], "No label says who gave it.")
    known = checked(found)
    worst = stand_out(known)
    ordered = worst + sorted(
        found.keys() - {*worst}, key=lambda name: (-found[name]["labels"], name)
    )
    pipeline = view.document("pipeline").get("name")
    rows: Rows = [
        [
            Cell(name, link=page_of("/records", pipeline, by=name)),
            amount(found[name]["labels"]),
            Cell(
                _of(found[name]["agreed"], found[name]["shared"]),
                link=page_of("/records", pipeline, by=name, contested="true")
                if found[name]["agreed"] < found[name]["shared"]
                else None,
            ),
            _of(found[name]["confirmed"], found[name]["judged"]),
            _right(known[name], name in worst),
        ]
        for name in ordered[:MOST]
    ]
    return Table("Annotators", _COLUMNS, rows, _said(found, known, worst))


def _of(n: int, of: int) -> str:
    return f"{n:,} of {of:,}" if of else NOTHING


def _right(one: Checked, is_worst: bool) -> Cell:
    found = one.interval()
    if found is None:
        return Cell(NOTHING)
    return Cell(estimate(found), bar=found["value"], colour="bad" if is_worst else "series-1")


def _said(
    found: Mapping[str, Mapping[str, int]], known: Mapping[str, Checked], worst: Sequence[str]
) -> str:
    """Say who stands out, and by what; or that nobody does."""
    names = f"{plural(len(found), 'source')} gave labels"
    if not worst:
        if not any(one.given for one in known.values()):
            return f"{names}; nothing tells yet whose are wrong."
        return f"{names}; nobody stands out by more than chance."
    first, one = worst[0], found[worst[0]]
    parts = (
        (one["confirmed"], one["judged"], "of the labels that a sure prediction tells of"),
        (one["agreed"], one["shared"], "where others labelled the same record"),
    )
    told = " and ".join(f"in {n:,} of {of:,} {what}" for n, of, what in parts if of)
    others = [known[name] for name in found if name != first]
    rest = Checked(sum(other.right for other in others), sum(other.given for other in others))
    usual = percent(rest.right / rest.given)
    more = f" So {'do' if len(worst) > 2 else 'does'} {', '.join(worst[1:])}." * (len(worst) > 1)
    share = percent(known[first].right / known[first].given)
    return (
        f"{first} labels against the others most often: alike {told}, {share} right by both; the "
        f"others' {usual}.{more} {names}."
    )
