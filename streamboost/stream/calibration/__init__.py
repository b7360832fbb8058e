"""Probabilities that mean what they say: their temperature, and sets of labels."""
