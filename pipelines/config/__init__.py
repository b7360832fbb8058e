"""Configuration: reads and validates pipeline files, and checks changes against a state."""
