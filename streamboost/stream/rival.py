"""A committee that may take the place of the one that serves, if it makes fewer errors."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamboost.storage import Arrays
from streamboost.stream.checks import Label
from streamboost.stream.schedule import Training
from streamboost.stream.scoring import labels_of

if TYPE_CHECKING:
    from streamboost.boosting.committee import Committee

__all__ = ["Rival"]


@dataclass(slots=True)
class Rival:
    """A committee judged, beside the one that serves, on labels as they come.

    Each label is judged before either committee is trained on it, so that neither is flattered.

    Attributes
    ----------
    training, committee
        How it was made, and itself.
    left
        Labels still to judge by.
    lead
        Errors of the one that serves, less its own.
    """

    training: Training
    committee: "Committee"
    left: int
    lead: int = 0

    def judge(self, champion: "Committee", row: np.ndarray, label: Label) -> None:
        """Compare it with `champion`, which serves, on a `row` (D,) just labelled."""
        rows = row[None]
        errors = [int(labels_of(one, rows)[0] != label) for one in (champion, self.committee)]
        self.lead += errors[0] - errors[1]
        self.left -= 1

    @property
    def wins(self) -> bool:
        """Whether all labels are judged and it made fewer errors."""
        return not self.left and self.lead > 0

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return all of it: one part as JSON can hold it, the other as arrays."""
        about = {"training": asdict(self.training), "left": self.left, "lead": self.lead}
        return about, self.committee.to_arrays()

    @classmethod
    def resume(cls, state: dict[str, Any], arrays: Arrays) -> "Rival":
        """Return the rival that `state` took apart."""
        from streamboost.boosting.committee import Committee

        committee = Committee.from_arrays(arrays)
        return cls(Training(**state["training"]), committee, state["left"], state["lead"])
