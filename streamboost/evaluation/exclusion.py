"""Exclusion of annotators' labels from sums over evaluated records."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from streamboost.evaluation.sufficient_stats import EvaluatedRecords, SufficientStats


def exclusion_change(
    records: EvaluatedRecords, annotators: np.ndarray, excluded: Collection[int], n_classes: int
) -> SufficientStats:
    """Return the change of the sums over `records` if the labels of some annotators are excluded.

    `annotators` (n,) is the number of each record's annotator, and `excluded` are the numbers of
    the excluded ones. Their records count as records without a label. The other labelled records
    represent them: their inclusion probabilities are multiplied by the share of the labels that
    remain.
    """
    is_out = np.isin(annotators, list(excluded))[records.truth >= 0]
    records = select_records(records, records.truth >= 0)
    weight = records.others + 1.0
    share = weight[is_out].sum() / max(weight.sum(), 1.0)
    left_out, kept = (select_records(records, mask) for mask in (is_out, ~is_out))
    change = SufficientStats(n_classes)
    for part, times in (
        (records, -1.0),
        (replace(left_out, truth=np.full(len(left_out.truth), -1)), 1.0),
        (replace(kept, others=weight[~is_out] / max(1.0 - share, 1e-9) - 1.0), 1.0),
    ):
        sums = SufficientStats(n_classes)
        sums.add(part)
        change.merge(sums, times=times)
    return change


def concatenate_records(groups: Sequence[EvaluatedRecords]) -> EvaluatedRecords:
    """Return one group with the records of all `groups` (at least one), in order."""
    P, predicted, truth, others = (
        np.concatenate([getattr(one, name) for one in groups])
        for name in ("P", "predicted", "truth", "others")
    )
    decision_cost = [one.decision_cost for one in groups if one.decision_cost is not None]
    return EvaluatedRecords(
        P, predicted, truth, others, np.concatenate(decision_cost) if decision_cost else None
    )


def select_records(records: EvaluatedRecords, mask: np.ndarray) -> EvaluatedRecords:
    """Return the records where `mask` (n,) is true."""
    cost = records.decision_cost
    return EvaluatedRecords(
        records.P[mask],
        records.predicted[mask],
        records.truth[mask],
        records.others[mask],
        None if cost is None else cost[mask],
    )
