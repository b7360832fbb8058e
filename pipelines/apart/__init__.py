"""Scoring apart from learning: members of a consumer group predict, and one process learns."""
