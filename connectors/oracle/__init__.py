"""Oracle: answers label requests from a file of known labels, with a delay."""
