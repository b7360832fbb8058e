"""Application layer: the work of the commands (run, check, inspect, verify, serve, score)."""
