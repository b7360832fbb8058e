"""What stands in messages: bytes become records, labels and dead letters, and back."""
