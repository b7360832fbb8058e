"""Records that wait for a person, and the labels that people give."""
