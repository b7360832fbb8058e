"""The embedded log: streams in one SQLite file, and commits to it."""
