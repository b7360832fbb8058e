"""Models of others: the one that serves in the place of the committee, and rivals beside it."""
