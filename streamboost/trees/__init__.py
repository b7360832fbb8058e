"""Histogram bins, growth of trees, and the packed forest."""
