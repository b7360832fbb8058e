"""Texts of the comparisons of committee versions, equal in commands and on pages."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamboost.evaluation.shadow_scoring import MOST_LABELS
from streamboost.pipelines.status.formatting import count_text


def comparison_lines(comparisons: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence about each of the two newest comparisons, the current one first.

    `comparisons` is the result of `ShadowScoring.to_json`.
    """
    if not comparisons:
        return ["Versions are compared once one has replaced another."]
    return [comparison_text(one) for one in comparisons[:-3:-1]]


def comparison_text(comparison: Mapping[str, Any]) -> str:
    """Describe a comparison, and the number of labels that are missing for a result.

    >>> found = {"baseline": 2, "first": 3, "last": 3, "labels": 310, "missing_labels": 240}
    >>> found["difference"] = {"value": -0.008, "low": -0.02, "high": 0.01}
    >>> print(comparison_text(found))
    Version 3 is 0.8 points worse than 2 (-1.0 to 2.0): inconclusive, about 240 more labels needed.
    """
    found, missing = comparison["difference"], comparison["missing_labels"]
    is_one = comparison["first"] == comparison["last"]
    whose = f"{'Version' if is_one else 'Versions'} {versions_text(comparison)}"
    whose += " is" if is_one else " are"
    baseline, labels = comparison["baseline"], count_text(comparison["labels"], "label")
    if found is None:
        return f"{whose} compared with {baseline}: too few labels yet ({labels})."
    value, *ends = (100.0 * found[name] for name in ("value", "low", "high"))
    if value < 0.0:
        ends = [-end for end in reversed(ends)]
    low, high = ends
    word = "worse" if value < 0.0 else "better"
    size = f"{abs(value):.1f} points {word} than {baseline} ({low:.1f} to {high:.1f})"
    if missing == 0:
        return f"{whose} {size}, on the same {labels}."
    if missing is None:
        why = f"too small to decide within {MOST_LABELS:,} labels"
    else:
        why = f"about {count_text(round(float(f'{missing:.2g}')), 'more label')} needed"
    return f"{whose} {size}: inconclusive, {why}."


def versions_text(comparison: Mapping[str, Any]) -> str:
    """Return the numbers of the newer versions of a comparison.

    >>> versions_text({"first": 3, "last": 3}), versions_text({"first": 3, "last": 8})
    ('3', '3 to 8')
    """
    first, last = comparison["first"], comparison["last"]
    return str(first) if first == last else f"{first} to {last}"
