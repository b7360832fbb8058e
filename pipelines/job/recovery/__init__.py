"""A state that was lost: copies of its checkpoints, and making it again."""
