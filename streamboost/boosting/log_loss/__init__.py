"""Boosting algorithms that minimise the log loss: LogitBoost and its variants."""
