"""The sections of a pipeline file that name a system, each of which opens what it names."""
