"""Query strategies: utilities of labels, measured by a committee's uncertainty.

Each measure maps a part of the predictions (`Utility.required_input`) to numbers in [0, 1]. Records
of higher utility are requested first. Utilities computed with different committees are not
comparable.

References
----------
.. [1] Settles, B. (2009). Active learning literature survey. University of Wisconsin-Madison,
   Computer Sciences Technical Report 1648, sections 3.1 and 3.2.
.. [2] Dagan, I. and Engelson, S. P. (1995). Committee-based sampling for training probabilistic
   classifiers. ICML.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

Needs = Literal["nothing", "margins", "probabilities", "votes"]


@dataclass(frozen=True, slots=True)
class Utility:
    """Measure of how useful a record's label would be, from the committee's uncertainty.

    Attributes
    ----------
    required_input
        Input of `measure` for n records: "margins" (n,), the largest raw score minus the second
        largest; "probabilities" (n, K); "votes" (n, K), the share of the committee's members that
        vote for each class; "nothing", any array with n rows.
    measure
        Function from `required_input` to utilities, float64 (n,).
    reason
        Relative clause that describes the record of highest utility in texts of the user interface,
        such as "whose two likeliest classes are closest"; "" for "random".
    """

    required_input: Needs
    measure: Callable[[np.ndarray], np.ndarray]
    reason: str


def _margin_utilities(margins: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + margin) for `margins` (n,): smaller margins have higher utility."""
    return np.asarray(1.0 / (1.0 + margins))


def _random_utilities(records: np.ndarray) -> np.ndarray:
    """Return 1 for every record: all labels are equally useful."""
    return np.ones(len(records))


def _least_confidence_utilities(probabilities: np.ndarray) -> np.ndarray:
    """Return 1 minus the largest of each record's `probabilities` (n, K) ([1], section 3.1)."""
    return np.asarray(1.0 - probabilities.max(axis=1, initial=0.0))


def _entropy_utilities(distributions: np.ndarray) -> np.ndarray:
    """Return entropies (n,) divided by log K of probabilities [1] or vote shares [2] (n, K)."""
    n_classes = distributions.shape[1]
    if n_classes < 2:
        return np.zeros(len(distributions))
    logs = np.log(distributions, where=distributions > 0, out=np.zeros_like(distributions))
    return np.asarray(-(distributions * logs).sum(axis=1) / np.log(n_classes)).clip(0.0, 1.0)


UTILITIES = {
    "margin": Utility("margins", _margin_utilities, "whose two likeliest classes are closest"),
    "entropy": Utility(
        "probabilities", _entropy_utilities, "that could most easily be of several classes"
    ),
    "least_confident": Utility(
        "probabilities", _least_confidence_utilities, "whose likeliest class is least likely"
    ),
    "vote_entropy": Utility(
        "votes", _entropy_utilities, "on which the committee's members disagree most"
    ),
    "random": Utility("nothing", _random_utilities, ""),
}
