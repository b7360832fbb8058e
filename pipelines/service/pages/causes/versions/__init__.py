"""The versions: what changed since one, two side by side, and all that are known."""
