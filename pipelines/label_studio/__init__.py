"""Answers from Label Studio: requests become tasks, annotations become labels."""
