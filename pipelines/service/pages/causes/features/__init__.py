"""The features: how each falls now and fell then, what shifted, and what hangs on it."""
