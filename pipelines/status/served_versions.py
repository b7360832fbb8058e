"""The committees that served, each with what it was made of and how much it predicted."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamboost.errors import DataError
from streamboost.pipelines.status.file import Row
from streamboost.pipelines.status.history import text_of

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["ServedVersions"]

MOST = 200
"""Committees that are told of: the newest."""

MOST_CLASSES = 500
"""Classes told that a committee knows."""

FEATURES = 50
"""Features whose importance is told: the greatest."""


class ServedVersions:
    """The rows of ``versions``, by their number."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self._known: dict[int, dict[str, Any]] = {}
        self._serves: Committee | None = None

    def resume(self, versions: Iterable[Mapping[str, Any]]) -> None:
        """Take up what an earlier run has left."""
        for one in versions:
            self._note(int(one["version"]), dict(one))

    def update(
        self, committee: "Committee | None", labels: int, columns: Sequence[str], now: int
    ) -> dict[str, float]:
        """Note the committee that serves at `now`; return its features' importances.

        `labels` are those known, and `columns` what those of the rows are that it scores.
        """
        if committee is None:
            return {}
        if committee is not self._serves:
            self._serves = committee
            made = {
                "trees": committee.n_trees,
                "rounds": committee.n_rounds,
                "features": committee.n_features,
                "knows": [str(one) for one in committee.classes[:MOST_CLASSES].tolist()],
                "importances": _importances(committee, columns),
            }
            first = {"version": committee.version, "began": now, "labels": labels, "predicted": 0}
            self._note(committee.version, first | self._known.get(committee.version, {}) | made)
        for oldest in sorted(self.rows)[:-MOST]:
            del self.rows[oldest], self._known[oldest]
        return dict(self._known[committee.version]["importances"])

    def count(self, predicted: Mapping[int, int]) -> None:
        """Take in how many records more each version predicted."""
        for version in predicted.keys() & self._known.keys():
            known = self._known[version]
            self._note(version, known | {"predicted": known["predicted"] + predicted[version]})

    def _note(self, version: int, about: dict[str, Any]) -> None:
        self._known[version], self.rows[version] = about, (text_of(about),)


def _importances(committee: "Committee", columns: Sequence[str]) -> dict[str, float]:
    try:
        shares = committee.feature_importances().tolist()
    except DataError:  # not all committees are made of trees
        return {}
    # Columns that came after it was trained it knows nothing of.
    found = sorted(zip(columns, shares, strict=False), key=lambda one: -one[1])
    return {name: round(share, 4) for name, share in found[:FEATURES] if share > 0}
