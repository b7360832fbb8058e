"""The honest figures in full: of the committee, of each class, and of its probabilities."""

from collections.abc import Mapping
from typing import Any

from streamboost.pipelines.service.pages.tables import Cell, Column, Table
from streamboost.pipelines.service.pages.view import View, page_of
from streamboost.pipelines.status.formatting import NOTHING, amount, estimate, percent

__all__ = ["by_class", "calibration", "figures"]

_WAITING = "Shown once labels that were asked for have come back, and tell enough."

_FIGURES = (
    ("Accuracy", ("committee", "accuracy"), "share predicted rightly on arrival"),
    ("Balanced accuracy", ("committee", "balanced_accuracy"), "mean of the classes' recall"),
    ("Kappa", ("committee", "kappa"), "Cohen's: 0 % is chance, 100 % is all right"),
    ("Log loss", ("log_loss",), "of the probabilities, in nats: less is better"),
    ("Repeating the last label", ("repeat_last", "accuracy"), "its accuracy"),
    ("The commonest label", ("majority", "accuracy"), "its accuracy"),
)


def figures(view: View) -> Table:
    """Show the figures of the committee, since the start and of late."""
    whole, recent = _reports(view)
    columns = [
        Column("Figure", "words"),
        Column("Since the start"),
        Column("Newest"),
        Column("What it is", "words"),
    ]
    found = [
        (title, _at(whole, path), _at(recent, path), meaning, path == ("log_loss",))
        for title, path, meaning in _FIGURES
    ]
    if not any(one or other for _, one, other, _, _ in found):
        return Table("Figures", columns, [], _WAITING)
    rows = [
        [title, _shown(one, plain), _shown(other, plain), meaning]
        for title, one, other, meaning, plain in found
    ]
    judged = f"{amount(whole.get('records'))} records, the newest {amount(recent.get('records'))}"
    return Table("Figures", columns, rows, f"Over {judged}; each with its 95 % interval.")


def by_class(view: View) -> Table:
    """Show how often each class is found, and how often what is called it is it."""
    whole, recent = _reports(view)
    pipeline = view.document("pipeline").get("name")
    late = {str(one["label"]): one for one in recent.get("classes") or ()}
    columns = [
        Column("Class", "words"),
        Column("Share"),
        Column("Recall"),
        Column("Recall of late"),
        Column("Precision"),
        Column("Precision of late"),
    ]
    known = [one for one in whole.get("classes") or () if one.get("recall")]
    if not known:
        return Table("Classes", columns, [], _WAITING)
    rows: list[list[str | Cell]] = []
    for one in known:
        name = str(one["label"])
        new: Mapping[str, Any] = late.get(name) or {}
        link = page_of("/records", pipeline, true=name)
        rows.append(
            [
                Cell(name, link=link),
                percent((one.get("share") or {}).get("value")),
                *(_bar(part.get(key)) for key in ("recall", "precision") for part in (one, new)),
            ]
        )
    newest = [one for one in late.values() if one.get("recall")]
    told = [
        f"{when} {worst['label']} is missed most: of it {estimate(worst['recall'])} are found."
        for when, found in (("Of late", newest), ("Since the start", known))
        for worst in sorted(found, key=lambda one: float(one["recall"]["value"]))[:1]
    ]
    return Table("Classes", columns, rows, " ".join(told))


def calibration(view: View) -> Table:
    """Show how often predictions of a probability are right."""
    whole, _ = _reports(view)
    bins = [one for one in whole.get("reliability") or () if one.get("records")]
    columns = [
        Column("Probability", "words"),
        Column("On average"),
        Column("Share right"),
        Column("Records"),
    ]
    told = [one for one in bins if one.get("accuracy") and one.get("confidence") is not None]
    if not told:
        return Table("Calibration", columns, [], _WAITING)
    rows: list[list[str | Cell]] = [
        [
            f"{percent(one['low'])} to {percent(one['high'])}",
            percent(one.get("confidence")),
            _bar(one.get("accuracy")),
            amount(one["records"]),
        ]
        for one in bins
    ]
    total = sum(one["records"] for one in told)
    away = sum(one["records"] * abs(one["confidence"] - one["accuracy"]["value"]) for one in told)
    more = sum(one["records"] * (one["confidence"] - one["accuracy"]["value"]) for one in told)
    summary = (
        f"Probabilities are {100 * away / total:.1f} points away from the share right, on average: "
        f"{'too sure' if more > 0 else 'not sure enough'} as a rule."
    )
    return Table("Calibration", columns, rows, summary)


def _reports(view: View) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    found = view.document("evaluation")
    return found.get("since_start") or {}, found.get("recent") or {}


def _at(report: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, float] | None:
    found: Any = report
    for key in path:
        found = (found or {}).get(key)
    return found or None


def _shown(found: Mapping[str, float] | None, plain: bool) -> str:
    if found is None or not plain:
        return estimate(found)
    return f"{found['value']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


def _bar(found: Mapping[str, float] | None) -> Cell:
    if found is None:
        return Cell(NOTHING)
    return Cell(estimate(found), bar=found["value"], colour="series-1")
