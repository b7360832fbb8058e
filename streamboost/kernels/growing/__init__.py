"""Kernels that grow a tree: histograms, split search and partition of rows."""
