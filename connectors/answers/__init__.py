"""Answers from a file: labels known already, given late, as a person would give them."""
