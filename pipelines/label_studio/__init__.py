"""Label Studio integration: requests become tasks, annotations become labels."""
