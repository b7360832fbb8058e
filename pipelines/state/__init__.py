"""The state folder: what a pipeline keeps between two runs."""
