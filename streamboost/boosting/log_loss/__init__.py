"""Boosting on the log loss: LogitBoost and its relatives."""
