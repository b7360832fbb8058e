"""Committees that have been active, with their size and number of predictions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamboost.errors import DataError
from streamboost.pipelines.status.file import Row
from streamboost.pipelines.status.history import json_text

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

MOST = 200
"""Maximum number of committees kept, the newest."""

MOST_CLASSES = 500
"""Maximum number of classes listed for a committee."""

FEATURES = 50
"""Maximum number of feature importances, the largest."""


class VersionRows:
    """Rows of the table ``versions``: each version that was active, and how often it predicted."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self._known: dict[int, dict[str, Any]] = {}
        self._serves: Committee | None = None

    def restore(self, versions: Iterable[Mapping[str, Any]]) -> None:
        """Restore the versions of an earlier run."""
        for one in versions:
            self._store_version(int(one["version"]), dict(one))

    def update(
        self, committee: "Committee | None", labels: int, columns: Sequence[str], now: int
    ) -> dict[str, float]:
        """Add a row for the active committee if it is new; return the importance of each feature.

        `labels` is the number of learned labels, `columns` has the names of the feature columns,
        and `now` is the time of the last commit, in milliseconds since the epoch.
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
                "importances": _largest_importances(committee, columns),
            }
            first = {"version": committee.version, "began": now, "labels": labels, "predicted": 0}
            self._store_version(
                committee.version, first | self._known.get(committee.version, {}) | made
            )
        for oldest in sorted(self.rows)[:-MOST]:
            del self.rows[oldest], self._known[oldest]
        return dict(self._known[committee.version]["importances"])

    def count_predictions(self, predicted: Mapping[int, int]) -> None:
        """Add the numbers of predictions in `predicted`, keyed by version, to the rows."""
        for version in predicted.keys() & self._known.keys():
            known = self._known[version]
            self._store_version(
                version, known | {"predicted": known["predicted"] + predicted[version]}
            )

    def _store_version(self, version: int, version_data: dict[str, Any]) -> None:
        self._known[version], self.rows[version] = version_data, (json_text(version_data),)


def _largest_importances(committee: "Committee", columns: Sequence[str]) -> dict[str, float]:
    try:
        shares = committee.feature_importances().tolist()
    except DataError:  # not all committees have trees
        return {}
    # Columns added after the training have no importance.
    found = sorted(zip(columns, shares, strict=False), key=lambda one: -one[1])
    return {name: round(share, 4) for name, share in found[:FEATURES] if share > 0}
