"""The embedded log: streams in one SQLite file, and transactions that commit to it."""
