"""Writer thread that encodes publications and writes them to ``status.db``."""

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from streamboost.connectors.messages.schema import Schema
from streamboost.pipelines.status.feature_drift import (
    RECORDS,
    DriftHistory,
    FeatureDrift,
    Moment,
    ReferenceSummary,
    psi_of_top_features,
)
from streamboost.pipelines.status.file import FILE, Row, StatusFile
from streamboost.pipelines.status.history import HistoryBuffer, json_text
from streamboost.pipelines.status.labelled_records import LabelledChanges, LabelledRecordRows, Usual
from streamboost.pipelines.status.neighbours import (
    LabelledIndex,
    class_medians,
    nearest_labelled_records,
)
from streamboost.pipelines.status.reader import StatusReader
from streamboost.pipelines.status.recent import IntervalStats, RecentRecords
from streamboost.pipelines.status.requests import RequestChanges, RequestRows
from streamboost.pipelines.status.served_versions import VersionRows

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

_log = logging.getLogger(__name__)

MOST_FEATURES = 500
"""Maximum number of features shown: those with the largest PSI."""


MOST_DISTRIBUTIONS = 50
"""Maximum number of features with a histogram."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Snapshot of the pipeline's status that the runner passes to the writer thread.

    `point` is the newest chart point. `judged` has the new events of labelled records, and
    `labelled`
    is the index of these records. A part that is None is unchanged."""

    time: int
    sequence: int
    schema: Schema
    documents: dict[str, dict[str, Any]]
    point: dict[str, Any] | None
    since: IntervalStats
    recent: RecentRecords | None
    requests: RequestChanges | None
    judged: LabelledChanges | None = None
    committee: "Committee | None" = None
    labelled: LabelledIndex | None = None


class Writer:
    """Writer of publications, one at a time, in a separate thread; errors are logged only.

    Parameters
    ----------
    folder : the folder of the file
    monitored_columns : names of the columns that are monitored for drift

    Attributes
    ----------
    requests : open requests, initially those of an earlier run
    cost : CPU time of the newest publication, in seconds
    has_failed : whether the newest publication could not be written
    """

    def __init__(self, folder: Path, monitored_columns: list[str]) -> None:
        self._file = StatusFile(folder / FILE)
        self._board = HistoryBuffer()
        self._documents: dict[str, Row] = {}
        self._drift = FeatureDrift(monitored_columns)
        self._farthest = DriftHistory()
        self._came: deque[Moment] = deque(maxlen=RECORDS)
        self._reference_rows: Any = None
        self._labelled: LabelledIndex | None = None
        self.requests = RequestRows()
        self._judged = LabelledRecordRows()
        self._usual: dict[str, Usual] = {}
        self._versions = VersionRows()
        self._restore_earlier_status(StatusReader(folder))
        self._condition = threading.Condition()
        self._pending: Publication | None = None
        self._is_closed = False
        self.has_failed = False
        self.cost = 0.0
        self._thread = threading.Thread(
            target=self._write_until_closed, name="streamboost-status", daemon=True
        )
        self._thread.start()

    @property
    def is_idle(self) -> bool:
        """Whether no publication is pending."""
        return self._pending is None

    @property
    def has_drift_reference(self) -> bool:
        """Whether a reference sample for feature drift exists."""
        return self._drift.reference is not None

    def submit(self, publication: Publication) -> None:
        """Pass a publication to the writer thread. Call only if `is_idle`."""
        with self._condition:
            self._pending = publication
            self._condition.notify_all()

    def wait_until_idle(self, seconds: float) -> None:
        """Wait until the writer is idle, at most `seconds`."""
        with self._condition:
            self._condition.wait_for(lambda: self.is_idle, seconds)

    def close(self, seconds: float) -> None:
        """End the thread after the pending publication; wait at most `seconds`."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
        self._thread.join(seconds)

    def _restore_earlier_status(self, reader: StatusReader) -> None:
        """Restore the status of an earlier run, up to the first part that cannot be read."""
        try:
            self._board.restore(reader)
            self._documents = {
                name: (0, json_text(value)) for name, value in reader.documents().items()
            }
            self.requests.restore(reader.requests())
            self._judged.restore(reader.record_rows())
            self._versions.restore(reader.versions())
            told = reader.document("features") or {}
            self._farthest.restore(told.get("features") or ())
            kept = reader.document("feature_reference")
            reference = msgspec.convert(kept, ReferenceSummary) if kept else None
            if reference is not None and len(reference.counts) == len(self._drift.names):
                self._drift.reference = reference
        except Exception as error:
            _log.info(
                "the status of an earlier run cannot be restored, and is dropped: %s",
                error,
                extra={"event": "status_not_restored"},
            )
        finally:
            reader.close()

    def _write_until_closed(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._pending or self._is_closed)
                publication = self._pending
            if publication is None:
                self._file.close()
                return
            self._write_and_log_error(publication)
            with self._condition:
                self._pending = None
                self._condition.notify_all()

    def _write_and_log_error(self, publication: Publication) -> None:
        before = time.thread_time()
        try:
            self._write_publication(publication)
            self.has_failed = False
        except Exception as error:  # no error of the status may stop the pipeline
            if not self.has_failed:
                _log.warning(
                    "the status cannot be published: %s. Publication is retried",
                    error,
                    extra={"event": "status_failed"},
                )
            self.has_failed = True
        self.cost = time.thread_time() - before

    def _write_publication(self, publication: Publication) -> None:
        board, since = self._board, publication.since
        documents = publication.documents
        if publication.labelled is not None:
            self._labelled = publication.labelled
            documents = documents | {"typical": class_medians(self._labelled)}
        if publication.recent is not None:
            documents = documents | self._update_drift_and_build_documents(
                publication.recent, documents["join"]["records"], publication.time
            )
        if publication.judged is not None:
            self._judged.update(publication.judged, publication.schema, self._usual)
        if (asked := publication.requests) is not None:
            found = (
                nearest_labelled_records(self._labelled, asked.top_request_features())
                if self._labelled
                else {}
            )
            self.requests.update(asked, found, publication.schema, self._judged.non_feature_fields)
        if (named := documents.get("annotators")) is not None:
            of = self._judged.annotators.agreement_counts
            documents = documents | {"annotators": {who: named[who] | of(who) for who in named}}
        for mark in since.marks:
            board.add_chart_mark(*mark)
        board.add_predictions(since.predictions)
        board.add_dead_letters(since.dead_letters)
        if publication.recent is not None:
            columns = publication.judged.columns if publication.judged else ()
            about = publication.committee, documents["learner"]["labels"], columns
            documents["importances"] = self._versions.update(
                *about, documents["pipeline"]["time"] or publication.time
            )
        self._versions.count_predictions(since.served)
        if publication.point is not None:
            moved = psi_of_top_features(documents.get("features", {}).get("features", ()))
            point = publication.point | {"psi": moved}
            board.add_point(publication.time, publication.sequence, point)
        if "pipeline" in documents:
            documents["pipeline"]["fields"] = self.requests.fields
        for name, value in documents.items():
            text = json_text(value)
            if text != self._documents.get(name, (0, ""))[1]:
                self._documents[name] = (publication.time, text)
        self._file.write(
            {
                "documents": self._documents,
                "requests": self.requests.rows,
                "records": self._judged.rows,
                "versions": self._versions.rows,
                **board.rows_by_table(),
            }
        )

    def _update_drift_and_build_documents(
        self, recent: RecentRecords, records: int, now: int
    ) -> dict[str, Any]:
        """Measure the drift of the recent records, the last of `records`; `now` is in ms."""
        drift = self._drift
        rows = recent.reference_rows
        if rows is not None and rows is not self._reference_rows:
            self._reference_rows = rows
            drift.reference = ReferenceSummary.from_rows(rows, now)
        reference = drift.reference
        features = drift.measure_drift(recent.rows)
        self._came.append((records, now))
        n = len(recent.rows)

        def estimate_change_time(name: str) -> Moment:
            record = records - n + drift.change_point(recent.rows, name)
            by_then, times = zip(*self._came, strict=True)
            return record, int(np.interp(record, by_then, times))

        self._farthest.update(features, n, (records, now), estimate_change_time)
        self._usual = {one["name"]: (one["mean"], one["deviation"]) for one in features}
        features.sort(key=lambda one: -(one["psi"] or 0.0))
        return {
            "classes": recent.class_shares(),
            "confusion": recent.confusion_matrix(),
            "features": {
                "features": features[:MOST_FEATURES],
                "records": len(recent.rows),
                "reference_records": reference.n if reference else None,
                "reference_taken": reference.taken if reference else None,
            },
            "distributions": drift.histograms(
                recent.rows, [one["name"] for one in features[:MOST_DISTRIBUTIONS]]
            ),
            "feature_reference": reference or {},
        }
