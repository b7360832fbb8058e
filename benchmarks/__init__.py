"""Ours against peers: each module prints one table, measured side by side in one run."""
