"""How a pipeline does, published beside its state for others to read."""
