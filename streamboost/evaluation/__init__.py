"""Unbiased estimates of prediction quality from few labels, with confidence intervals."""
