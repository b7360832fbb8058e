"""One record: what happened to it, what it was taken for and why, and which are like it."""
