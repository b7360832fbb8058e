"""What a running pipeline says in its log."""

import logging
import time
from dataclasses import dataclass, field

from streamboost.pipelines.effects import Effects

__all__ = ["Report"]

_log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds between two lines."""


@dataclass(slots=True)
class Report:
    """Counts what the batches of one run did, and logs it from time to time and at the end."""

    records: int = 0
    requests: int = 0
    labels: int = 0
    dead_letters: int = 0
    sequence: int = 0
    _said: float = field(default_factory=time.monotonic)

    def __call__(self, effects: Effects) -> None:
        """Count one batch."""
        self.sequence = effects.sequence
        self.records += len(effects.records)
        self.requests += len(effects.asked)
        self.labels += len(effects.joined.ids)
        self.dead_letters += len(effects.messages.dead_letters)
        if time.monotonic() - self._said >= EVERY:
            self.say()

    def say(self) -> None:
        """Log how far the run has come, if it has."""
        if not self.sequence:
            return
        self._said = time.monotonic()
        _log.info(
            "batch %d: %d records predicted in this run, %d labels asked for, %d learned, "
            "%d dead letters",
            self.sequence,
            self.records,
            self.requests,
            self.labels,
            self.dead_letters,
        )
