"""Functions shared by the papers' tables: rows, splits, curves."""

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.data import load
from benchmarks.paper_tables.results import keep

mpl.use("agg")
mpl.rcParams.update({"axes.grid": True, "grid.alpha": 0.3, "figure.constrained_layout.use": True})


def show(title, columns, rows, notes=(), text=1):
    """Print a table and its notes, and write both to the file of results.

    The first `text` columns are words, the others numbers. A row of None draws a line, and a cell
    of None is empty.
    """
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < text else "right")
    for row in rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*("" if cell is None else str(cell) for cell in row))
    console = Console(width=120)
    console.print(table)
    for note in notes:
        console.print(f"- {note}", highlight=False, markup=False)
    console.print()
    if any(rows):
        keep(title, columns, rows, notes)


def save(figure, out, name):
    """Write a figure into the folder `out`, and print its path."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.png"
    figure.savefig(path, dpi=120)
    print(f"wrote {path}\n")


def official(name):
    """Return the official training and test rows, all of them; None where the set is missing."""
    data = load(name)
    if data is None:
        return None
    return (data["X_train"], data["y_train"]), (data["X_test"], data["y_test"])


def pooled(name):
    """Return all rows of a set, X and y in its own order; None where the set is missing."""
    halves = official(name)
    if halves is None:
        return None
    return np.concatenate([X for X, _ in halves]), np.concatenate([y for _, y in halves])


def drawn(X, y, sizes, seed):
    """Cut rows in random order into parts of `sizes`, the last of them the rest."""
    order = np.random.default_rng(seed).permutation(len(y))
    return [(X[part], y[part]) for part in np.split(order, np.cumsum(sizes))]


def stages(model, X, y, n_rounds):
    """Return the error in % after each of `n_rounds` rounds; a training that ended stays there."""
    wrong = [100 * (labels != y).mean() for labels in model.staged_predict(X)]
    return np.array(wrong + [wrong[-1]] * (n_rounds - len(wrong)))
