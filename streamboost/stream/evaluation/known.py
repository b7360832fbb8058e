"""The labels that are known, numbered, and what follows from their order and number alone."""

from typing import Any

import numpy as np

from streamboost.stream.checks import Label

__all__ = ["KnownLabels"]


class KnownLabels:
    """Numbers labels in the order first met, and says what the two baselines say.

    Attributes
    ----------
    codes
        The number of each.
    counts
        How often each of them came.
    last, commonest
        The number of the newest that came, and of the one that came most often; -1: none.
    """

    def __init__(self) -> None:
        self.codes: dict[Label, int] = {}
        self.counts: list[int] = []
        self.last = self.commonest = -1

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def kind(self) -> type | None:
        """What the labels are: text or whole numbers; None before the first."""
        return type(next(iter(self.codes))) if self.codes else None

    def code(self, label: Label) -> int:
        """Return the label's number, a new one where it is new."""
        if label not in self.codes:
            self.codes[label] = len(self.codes)
            self.counts.append(0)
        return self.codes[label]

    def come(self, label: Label) -> int:
        """Take in that a label came; return its number."""
        code = self.last = self.code(label)
        self.counts[code] += 1
        if self.commonest < 0 or self.counts[code] > self.counts[self.commonest]:
            self.commonest = code
        return code

    def correct(self, before: Label, label: Label | None) -> int:
        """Let one that came be another, None: none; return that one's number, -1 for none."""
        truth = -1 if label is None else self.code(label)
        self.counts[self.codes[before]] -= 1
        if truth >= 0:
            self.counts[truth] += 1
        self._count_anew()
        return truth

    def rename(self, label: Label, into: Label | None) -> None:
        """Let all that came of one class be of another, which may be new; None: of none."""
        before = self.codes[label]
        counted, self.counts[before] = self.counts[before], 0
        code = -1 if into is None else self.code(into)
        if code >= 0:
            self.counts[code] += counted
        self._count_anew()
        if self.last == before:
            self.last = code

    def _count_anew(self) -> None:
        self.commonest = int(np.argmax(self.counts)) if any(self.counts) else -1

    def state(self) -> dict[str, Any]:
        """Return all there is, as JSON can hold it."""
        return {
            "labels": list(self.codes),
            "counts": self.counts,
            "last": self.last,
            "commonest": self.commonest,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned, among others."""
        self.codes = {label: code for code, label in enumerate(state["labels"])}
        self.counts = list(state["counts"])
        self.last, self.commonest = state["last"], state["commonest"]
