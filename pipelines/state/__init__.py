"""State folder: journal entries, checkpoints, versions, commands and copies of a pipeline."""
