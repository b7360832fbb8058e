"""Models of others: before the fields, in the place of the committee, and rivals beside it."""
