"""Annotators: their label counts, their disagreement with others, and a test of outliers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamboost.pipelines.dashboard.binomial_tests import ERROR_PROBABILITY, Share, fisher_p_value
from streamboost.pipelines.dashboard.tables import Cell, Column, Rows, Table
from streamboost.pipelines.dashboard.view import View, page_of
from streamboost.pipelines.status.formatting import NOTHING, number_text, percent_text, plural

__all__ = [
    "MOST",
    "DisagreementCounts",
    "annotators",
    "disagreeing_annotators",
    "significant_disagreements",
]

MOST = 50
"""Maximum number of annotators shown, by the lower bound of their disagreement."""

_LEAST = 10
"""Minimum number of compared labels before an annotator can be reported."""

_COLUMNS = (
    Column("Annotator", "words"),
    Column("Labels"),
    Column("Disagreement"),
    Column("Outvoted"),
)


@dataclass(frozen=True, slots=True)
class DisagreementCounts:
    """Labels of an annotator that were compared with others' votes, and those in conflict."""

    n_conflicts: int
    n: int

    @property
    def share(self) -> Share | None:
        """Share of compared labels in conflict; None if none were compared."""
        return Share(self.n_conflicts / self.n, self.n) if self.n else None


def significant_disagreements(found: Mapping[str, DisagreementCounts]) -> list[str]:
    """Return the annotators who disagree with others significantly more often than the rest.

    The largest share of conflicts is first. Fisher's exact test is one-sided, with the level
    divided by the number of annotators (Bonferroni).
    """
    against, n = (
        sum(one.n_conflicts for one in found.values()),
        sum(one.n for one in found.values()),
    )
    named = [
        (-one.n_conflicts / one.n, name)
        for name, one in found.items()
        if one.n >= _LEAST
        and fisher_p_value(one.n_conflicts, one.n, against, n) < ERROR_PROBABILITY / len(found)
    ]
    return [name for _, name in sorted(named)]


def disagreeing_annotators(view: View) -> list[str]:
    """Return the annotators with a significant disagreement, the largest share first."""
    return view.cached(
        disagreeing_annotators, lambda: significant_disagreements(_disagreement_counts(view))
    )


def _disagreement_counts(view: View) -> dict[str, DisagreementCounts]:
    found: Mapping[str, Mapping[str, int]] = view.document("annotators")
    return {
        name: DisagreementCounts(one.get("against", 0), one.get("compared", 0))
        for name, one in found.items()
    }


def annotators(view: View) -> Table:
    """Build the table of annotators and their disagreement, significant ones first."""
    found: Mapping[str, Mapping[str, int]] = view.document("annotators")
    if not found:
        return Table("Annotators", _COLUMNS, [], "No label names its annotator.")
    compared, worst = _disagreement_counts(view), disagreeing_annotators(view)
    rest = sorted(found.keys() - {*worst}, key=lambda name: (-_lower_bound(compared[name]), name))
    pipeline = view.document("pipeline").get("name")
    rows: Rows = [
        [
            Cell(name, link=page_of("/records", pipeline, by=name)),
            number_text(found[name]["labels"]),
            _disagreement_cell(compared[name], name in worst),
            number_text(found[name].get("outvoted", 0)) if found[name].get("together") else NOTHING,
        ]
        for name in (*worst, *rest)[:MOST]
    ]
    return Table("Annotators", _COLUMNS, rows, _summary(compared, worst))


def _lower_bound(one: DisagreementCounts) -> float:
    return -1.0 if one.share is None else round(one.share.interval()[0], 6)


def _disagreement_cell(one: DisagreementCounts, is_worst: bool) -> Cell:
    share = one.share
    if share is None:
        return Cell(NOTHING)
    low, high = share.interval()
    text = f"{one.n_conflicts:,} of {one.n:,}: {100 * low:.0f} to {100 * high:.0f} %"
    return Cell(text, bar=share.value, colour="bad" if is_worst else "series-1")


def _summary(found: Mapping[str, DisagreementCounts], worst: Sequence[str]) -> str:
    """Summarize which annotators disagree significantly, or that none does."""
    names = f"{plural(len(found), 'source')} gave labels"
    if not any(one.n for one in found.values()):
        return f"{names}; no labels could be compared yet."
    if not worst:
        return f"{names}; no annotator disagrees significantly often."
    first = found[worst[0]]
    others = [one for name, one in found.items() if name != worst[0]]
    against, n = sum(one.n_conflicts for one in others), sum(one.n for one in others)
    more = f" So {'do' if len(worst) > 2 else 'does'} {', '.join(worst[1:])}." * (len(worst) > 1)
    return (
        f"{worst[0]} disagrees significantly often: {first.n_conflicts:,} of {first.n:,} compared "
        f"labels, {percent_text(first.n_conflicts / first.n)}; all other "
        f"annotators {percent_text(against / n)}.{more} {names}."
    )
