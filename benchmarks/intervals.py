"""Means over seeds, with 95 % t intervals."""

import numpy as np
from scipy.stats import t as student


def interval(values):
    """Return mean and half-width of the 95 % t interval over the seeds."""
    if len(values) < 2:
        return np.mean(values), np.nan
    quantile = student.ppf(0.975, len(values) - 1)
    return np.mean(values), quantile * np.std(values, ddof=1) / np.sqrt(len(values))


def cell(values, sign=""):
    mean, half = interval(values)
    return f"{mean:{sign}.2f} ± {half:.2f}" if np.isfinite(half) else f"{mean:{sign}.2f}"
