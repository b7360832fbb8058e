"""Numeric loops compiled by numba; callers in other packages validate and allocate the arrays."""
