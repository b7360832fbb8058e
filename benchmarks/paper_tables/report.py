"""What the papers' tables share: rows, splits, curves."""

import os

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.data import load

mpl.use("agg")
mpl.rcParams.update({"axes.grid": True, "grid.alpha": 0.3, "figure.constrained_layout.use": True})

# The wrapped text of reasons wants room, and terminals differ: one width for all.
_WIDTH = int(os.environ.get("COLUMNS", "120"))


def show(title, columns, rows, notes=()):
    """Print a table: `columns` of text end in a dot less than numbers, None is an empty cell."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        text = column in ("set", "method", "claim", "measured on", "holds")
        table.add_column(column, justify="left" if text else "right")
    for row in rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*("" if cell is None else str(cell) for cell in row))
    console = Console(width=_WIDTH)
    console.print(table)
    for note in notes:
        console.print(note, highlight=False, markup=False)
    console.print()


def save(figure, out, name):
    """Write a figure into the folder `out`, and say so."""
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
