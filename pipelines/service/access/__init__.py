"""Who may come in, and what the service was told about that."""
