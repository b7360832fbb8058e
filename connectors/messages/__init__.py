"""Message formats: decodes bytes to records, labels and dead letters, and encodes them."""
