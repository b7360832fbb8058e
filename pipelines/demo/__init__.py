"""The demonstration: what asking well is worth, on real records."""
