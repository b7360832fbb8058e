"""The committees that served, each with what it was made of and how it did while it served."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamboost.errors import DataError
from streamboost.pipelines.status.file import Row
from streamboost.pipelines.status.history import text_of
from streamboost.stream.evaluation.report import Report

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["ServedVersions"]

MOST = 200
"""Committees that are told of: the newest."""

FEATURES = 50
"""Features whose importance is told: the greatest."""


class ServedVersions:
    """The rows of ``versions``, by their number."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self._began: dict[int, tuple[int | None, int]] = {}
        self._shares: tuple[int, dict[str, float]] = (0, {})

    def resume(self, versions: Iterable[Mapping[str, Any]]) -> None:
        """Take up what an earlier run has left."""
        for one in versions:
            version = int(one["version"])
            self.rows[version] = (text_of(one),)
            self._began[version] = one["began"], one["labels"]

    def update(
        self,
        committee: "Committee | None",
        documents: Mapping[str, Mapping[str, Any]],
        columns: Sequence[str],
        now: int,
    ) -> dict[str, float]:
        """Note at `now` how the committee does that serves; return its features' importances.

        `columns` are what those of the rows are that it scores.
        """
        if committee is None:
            return {}
        version = committee.version
        if self._shares[0] != version:
            self._shares = version, _importances(committee, columns)
        began, labels = self._began.setdefault(version, (now, documents["learner"]["labels"]))
        recent: Report = documents["evaluation"]["recent"]
        text = text_of(
            {
                "version": version,
                "began": began,
                "labels": labels,
                "trees": committee.n_trees,
                "rounds": committee.n_rounds,
                "importances": self._shares[1],
                "records": recent.records,
                "accuracy": recent.committee.accuracy,
                "classes": recent.classes,
                "told": _told(documents.get("confusion") or {}),
            }
        )
        if self.rows.get(version) != (text,):
            self.rows[version] = (text,)
        for oldest in sorted(self.rows)[:-MOST]:
            del self.rows[oldest], self._began[oldest]
        return self._shares[1]


def _told(confusion: Mapping[str, Any]) -> dict[str, int]:
    """Return how many labels of late tell of each class."""
    labels, counts = confusion.get("labels") or (), confusion.get("counts") or ()
    return {str(label): sum(row) for label, row in zip(labels, counts, strict=True)}


def _importances(committee: "Committee", columns: Sequence[str]) -> dict[str, float]:
    try:
        shares = committee.feature_importances().tolist()
    except DataError:  # not all committees are made of trees
        return {}
    # Columns that came after it was trained it knows nothing of.
    found = sorted(zip(columns, shares, strict=False), key=lambda one: -one[1])
    return {name: round(share, 4) for name, share in found[:FEATURES] if share > 0}
