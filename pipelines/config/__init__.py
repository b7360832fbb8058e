"""A pipeline file: reading it, checking it as a whole, and what of it may change."""
