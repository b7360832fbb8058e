"""Query strategies and label budgets for active learning."""
