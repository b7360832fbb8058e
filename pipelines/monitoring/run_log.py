"""Progress log of a running pipeline."""

import logging
import time
from collections import Counter
from dataclasses import dataclass, field

from streamboost.connectors.messages.outgoing import DeadLetter
from streamboost.pipelines.runner.batch import StepResult
from streamboost.pipelines.runner.observers import Observer

_log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds between two lines."""

UNKNOWN = 0.01
"""Share of labels without a record above which a warning is logged."""

_IGNORED = {
    "late": "arrived after its record was evicted from the join window",
    "expired": "arrived after its request expired",
    "duplicate": "repeats the label of its record",
    "conflicting": "differs from the first label of its record, which stays",
    "unknown": "matches no record",
    "empty_label": "retracts a label that does not exist",
}


@dataclass(slots=True)
class RunLog(Observer):
    """Observer that counts records, requests and labels, and logs them every 10 s and at the end.

    The first dead letter of each reason and the first ignored label of each kind are logged. With
    `quiet`, the periodic lines are left out, for commands that show the progress otherwise.
    """

    records: int = 0
    requests: int = 0
    labels: int = 0
    initial_labels: int = 0
    unlabelled: int = 0
    trainings: int = 0
    sequence: int = 0
    first: int = 0
    labels_read: int = 0
    dead: Counter[str] = field(default_factory=Counter)
    first_dead: dict[str, DeadLetter] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)
    quiet: bool = False
    _said: float = field(default_factory=time.monotonic)
    _has_warned: bool = False

    def on_commit(self, effects: StepResult) -> None:
        """Add a committed batch to the counts; log the progress every `EVERY` seconds."""
        self.sequence = effects.sequence
        self.first = self.first or effects.sequence
        self.records += effects.n_predicted
        self.requests += len(effects.asked) + len(effects.relabels)
        self.labels += len(effects.joined.ids) - effects.initial_labels
        self.initial_labels += effects.initial_labels
        self.labels_read += effects.read["labels"]
        self.unlabelled += sum(label is None for label in effects.scored.labels.tolist())
        self.trainings += len(effects.trainings)
        for letter in effects.dead:
            self._count_dead_letter(letter)
        for kind, n in effects.ignored.items():
            if n and not self.ignored[kind]:
                _log.info(
                    "the first ignored label (%s) %s",
                    kind,
                    _IGNORED[kind],
                    extra={"event": "label_ignored"},
                )
            self.ignored[kind] += n
        if time.monotonic() - self._said >= EVERY:
            self._said = time.monotonic()
            self._warn_of_unknown_labels()
            if self.quiet:
                return
            version = effects.committee.version if effects.committee else 0
            _log.info(
                "batch %d: %s; trained %s, committee version %d",
                self.sequence,
                self._totals_text(),
                _repetition_text(self.trainings),
                version,
                extra={"event": "progress"},
            )

    def _warn_of_unknown_labels(self) -> None:
        unknown, all_ = self.ignored["unknown"], self.labels + self.ignored.total()
        if self._has_warned or unknown <= UNKNOWN * all_:
            return
        self._has_warned = True
        _log.warning(
            "%d of %d labels matched no record, and are lost: check that labels have the ids of "
            "their records, and that [pipeline] join_window is long enough",
            unknown,
            all_,
            extra={"event": "labels_unmatched"},
        )

    def close(self, sequence: int) -> None:
        """Log the totals of the run; `sequence` is the newest batch, 0 before the first."""
        if not self.sequence:
            _log.info(
                f"no messages since batch {sequence}"
                if sequence
                else "the sources have no messages",
                extra={"event": "sources_idle"},
            )
            return
        self._warn_of_unknown_labels()
        empty = f", {self.unlabelled:,} predicted before the first label (label null)"
        _log.info(
            "stopped after batch %d: %s%s",
            sequence,
            self._totals_text(),
            empty if self.unlabelled else "",
            extra={"event": "run_stopped"},
        )

    def log_interruption(self) -> None:
        """Log the totals of a run that was interrupted while it waited to begin or to end."""
        if not self.sequence:
            _log.warning(
                "stopped while waiting at the start: nothing has changed",
                extra={"event": "stopped_while_waiting"},
            )
            return
        _log.warning(
            "stopped after batch %d, while waiting at the end: %s; committed data is unchanged",
            self.sequence,
            self._totals_text(),
            extra={"event": "stopped_while_waiting"},
        )

    def unusable_input_warning(self, *, is_complete: bool) -> str | None:
        """Return a warning if a finished run could use none of its records, or none of its labels.

        `is_complete` is whether the run has read all input, so that no record will arrive for a
        waiting label. Without input, or after batches of an earlier run, the result is None.
        """
        if self.first > 1:
            return None
        letter = self.first_dead.get("records")
        if not self.records and letter is not None:
            return f"no record could be used; the first, {letter.reason}: {letter.detail}"
        letter = self.first_dead.get("labels")
        if self.labels or self.labels_read <= self.ignored.total() - self.ignored["unknown"]:
            return None
        if letter is not None:
            told = f"no label could be used; the first, {letter.reason}: {letter.detail}"
            unnamed = letter.reason in ("missing_id", "missing_label")
            return f"{told}; set the names of the fields in [labels.fields]" if unnamed else told
        if not is_complete:
            return None
        return (
            f"none of {_count_text(self.labels_read, 'label')} matched a record: check that labels "
            "have the ids of their records, or set the id field in [labels.fields] id"
        )

    def _totals_text(self) -> str:
        parts = [
            f"{_count_text(self.records, 'record')} in this run",
            f"{_count_text(self.requests, 'label')} requested",
            f"{self.labels:,} learned",
            _count_text(self.dead.total(), "dead letter"),
        ]
        if self.initial_labels:
            parts.insert(
                0, f"{_count_text(self.initial_labels, 'label')} of the initial data learned"
            )
        if ignored := self.ignored.total():
            parts.append(f"{_count_text(ignored, 'label')} ignored")
        return ", ".join(parts)

    def _count_dead_letter(self, letter: DeadLetter) -> None:
        if not self.dead[letter.reason]:
            where = ", ".join(f"partition {p}, offset {o}" for p, o in letter.position.items())
            _log.warning(
                "the first dead letter (%s): %s; in the %s, %s",
                letter.reason,
                letter.detail,
                letter.source,
                where,
                extra={"event": "dead_letter"},
            )
        self.dead[letter.reason] += 1
        self.first_dead.setdefault(letter.source, letter)


def _count_text(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _repetition_text(n: int) -> str:
    return "once" if n == 1 else f"{n:,} times"
