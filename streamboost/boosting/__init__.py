"""Boosting loop, boosting algorithms with one file per family, and the trained committee."""
