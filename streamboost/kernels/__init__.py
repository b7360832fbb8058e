"""Numeric loops compiled by numba. The callers validate all arrays and allocate the outputs."""
