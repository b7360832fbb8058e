"""What to ask: utilities and budgets."""
