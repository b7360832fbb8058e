"""Bins of feature values, growth of trees, and the forest, whose arrays hold all trees."""
