"""Binning, growing and the packed forest."""
