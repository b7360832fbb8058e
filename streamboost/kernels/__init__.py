"""Loops over arrays, compiled by numba; their owners in trees/ and boosting/ check and allocate."""
