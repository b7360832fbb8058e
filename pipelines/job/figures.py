"""The honest figures, for a person to read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["in_words"]

_ROWS = (
    ("accuracy", ("committee", "accuracy")),
    ("balanced", ("committee", "balanced_accuracy")),
    ("kappa", ("committee", "kappa")),
    ("log loss", ("log_loss",)),
    ("repeat last", ("repeat_last", "accuracy")),
    ("majority", ("majority", "accuracy")),
)
_MEANS = {
    "accuracy": "share predicted right on arrival",
    "balanced": "mean of the classes' recall",
    "kappa": "Cohen's; 0 is chance",
    "log loss": "of the probabilities, in nats",
    "repeat last": "repeating the newest known label",
    "majority": "giving the commonest known label",
}
NONE = "too few answers"
WIDTH = 21


def in_words(evaluation: Mapping[str, Any]) -> Iterator[str]:
    """Say what `Evaluation.in_numbers` found, line by line; nothing before the first record."""
    whole, recent = evaluation["since_start"], evaluation["recent"]
    if not whole["records"]:
        return
    yield "  predictions, with 95 % intervals"
    yield _line("", "since the start", "newest")
    yield _line("records", f"{whole['records']:,}", f"{recent['records']:,}", "judged")
    for name, path in _ROWS:
        yield _line(name, *(_shown(_at(one, path)) for one in (whole, recent)), _MEANS[name])
    naive = [_at(one, ("committee", "naive_accuracy")) for one in (whole, recent)]
    told = [f"{one['value']:.3f}" if one else NONE for one in naive]
    yield _line("when asked", *told, "of asked labels: no fair sample")
    if whole["committee"]["accuracy"] is None:
        return
    yield "  classes since the start"
    yield _line("", "share", "recall", "precision")
    for one in whole["classes"]:
        found = (_shown(one[figure]) for figure in ("share", "recall", "precision"))
        yield _line(str(one["label"]), *found)
    yield "  predictions by their probability, since the start"
    yield _line("", "mean probability", "share right", "records")
    for one in whole["reliability"]:
        if one["records"]:
            name = f"{one['low']:.0%} to {one['high']:.0%}"
            share = _shown(one["accuracy"])
            yield _line(name, f"{one['confidence']:.3f}", share, f"{one['records']:,}")


def _at(report: Mapping[str, Any], path: Sequence[str]) -> Any:
    found: Any = report
    for key in path:
        found = found[key]
    return found


def _shown(figure: Mapping[str, float] | None) -> str:
    if figure is None:
        return NONE
    return f"{figure['value']:.3f} ({figure['low']:.3f}-{figure['high']:.3f})"


def _line(name: str, *cells: str) -> str:
    first, second, *rest = cells
    return f"    {name:<15} {first:<{WIDTH}} {second:<{WIDTH}} {''.join(rest)}".rstrip()
