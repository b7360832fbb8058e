"""The labelled records that training sees, and what each weighs."""
