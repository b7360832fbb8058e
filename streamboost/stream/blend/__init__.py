"""What several experts say of a record, as one prediction."""
