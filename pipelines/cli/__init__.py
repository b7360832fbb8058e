"""Command line: one module per command, which imports its implementation when called."""
