"""Annotators: their label counts, their disagreement with others, and a test of outliers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamboost.pipelines.dashboard.binomial_tests import (
    ERROR_PROBABILITY,
    Proportion,
    fisher_p_value,
)
from streamboost.pipelines.dashboard.tables import Cell, Column, Rows, Table
from streamboost.pipelines.dashboard.view import StatusSnapshot, page_address
from streamboost.pipelines.status.formatting import NOTHING, count_text, number_text, percent_text

MOST = 50
"""Maximum number of annotators shown, by the lower bound of their disagreement."""

_LEAST = 10
"""Minimum number of compared labels before an annotator can be reported."""

_COLUMNS = (
    Column("Annotator", "words"),
    Column("Labels given"),
    Column("Disagreement"),
    Column("Outvoted"),
)


@dataclass(frozen=True, slots=True)
class DisagreementCounts:
    """Number of an annotator's compared labels (`n`), and of disagreements among these."""

    n_disagreements: int
    n: int

    @property
    def disagreement_rate(self) -> Proportion | None:
        """Proportion of compared labels that disagree with others; None if none was compared."""
        return Proportion(self.n_disagreements / self.n, self.n) if self.n else None


def find_outlier_annotators(counts_by_annotator: Mapping[str, DisagreementCounts]) -> list[str]:
    """Return the annotators who disagree with others significantly more often than the rest.

    The annotator with the largest proportion of disagreements is first. Fisher's exact test is
    one-sided, with the significance level divided by the number of annotators (Bonferroni).
    """
    against, n = (
        sum(counts.n_disagreements for counts in counts_by_annotator.values()),
        sum(counts.n for counts in counts_by_annotator.values()),
    )
    named = [
        (-counts.n_disagreements / counts.n, name)
        for name, counts in counts_by_annotator.items()
        if counts.n >= _LEAST
        and fisher_p_value(counts.n_disagreements, counts.n, against, n)
        < ERROR_PROBABILITY / len(counts_by_annotator)
    ]
    return [name for _, name in sorted(named)]


def disagreeing_annotators(view: StatusSnapshot) -> list[str]:
    """Return the annotators who disagree with others significantly often, the worst first."""
    return view.get_or_compute(
        disagreeing_annotators, lambda: find_outlier_annotators(_disagreement_counts(view))
    )


def _disagreement_counts(view: StatusSnapshot) -> dict[str, DisagreementCounts]:
    found: Mapping[str, Mapping[str, int]] = view.document("annotators")
    return {
        name: DisagreementCounts(one.get("against", 0), one.get("compared", 0))
        for name, one in found.items()
    }


def annotator_table(view: StatusSnapshot) -> Table:
    """Build the table of annotators' labels and disagreement: `MOST` rows, outliers first."""
    found: Mapping[str, Mapping[str, int]] = view.document("annotators")
    if not found:
        return Table("Annotators", _COLUMNS, [], "No label names its annotator.")
    compared, worst = _disagreement_counts(view), disagreeing_annotators(view)
    rest = sorted(
        found.keys() - {*worst},
        key=lambda name: (-_disagreement_rate_lower_bound(compared[name]), name),
    )
    pipeline = view.document("pipeline").get("name")
    rows: Rows = [
        [
            Cell(name, link=page_address("/records", pipeline, by=name)),
            number_text(found[name]["labels"]),
            _disagreement_cell(compared[name], name in worst, disagreements_address(view, name)),
            number_text(found[name].get("outvoted", 0)) if found[name].get("together") else NOTHING,
        ]
        for name in (*worst, *rest)[:MOST]
    ]
    return Table("Annotators", _COLUMNS, rows, _disagreement_summary(compared, worst))


def _disagreement_rate_lower_bound(counts: DisagreementCounts) -> float:
    rate = counts.disagreement_rate
    return -1.0 if rate is None else round(rate.confidence_interval()[0], 6)


def disagreements_address(view: StatusSnapshot, name: str) -> str:
    """Return the address of the records on which the annotator `name` disagrees.

    Without records that others labelled too, the labels are compared with confident predictions.
    """
    pipeline = view.document("pipeline").get("name")
    if view.document("annotators")[name].get("together"):
        return page_address("/records", pipeline, by=name, contested="true")
    return page_address("/records", pipeline, by=name, wrong="true", confident="true")


def _disagreement_cell(counts: DisagreementCounts, is_outlier: bool, link: str) -> Cell:
    rate = counts.disagreement_rate
    if rate is None:
        return Cell(NOTHING)
    low, high = rate.confidence_interval()
    text = f"{counts.n_disagreements:,} of {counts.n:,}: {100 * low:.0f} to {100 * high:.0f} %"
    colour = "bad" if is_outlier else "series-1"
    return Cell(text, link=link if counts.n_disagreements else None, bar=rate.value, colour=colour)


def _disagreement_summary(
    counts_by_annotator: Mapping[str, DisagreementCounts], outliers: Sequence[str]
) -> str:
    """Describe in a sentence which annotators disagree significantly often, if any."""
    names = f"{count_text(len(counts_by_annotator), 'source')} gave labels"
    if not any(one.n for one in counts_by_annotator.values()):
        return f"{names}; no labels could be compared yet."
    if not outliers:
        return f"{names}; no annotator disagrees significantly often."
    first = counts_by_annotator[outliers[0]]
    others = [one for name, one in counts_by_annotator.items() if name != outliers[0]]
    against, n = sum(one.n_disagreements for one in others), sum(one.n for one in others)
    more = f" So {'do' if len(outliers) > 2 else 'does'} {', '.join(outliers[1:])}." * (
        len(outliers) > 1
    )
    return (
        f"{outliers[0]} disagrees significantly often: {first.n_disagreements:,} of {first.n:,} "
        f"compared labels, {percent_text(first.n_disagreements / first.n)}; all other "
        f"annotators {percent_text(against / n)}.{more} {names}."
    )
