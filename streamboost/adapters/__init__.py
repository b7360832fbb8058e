"""Adapters of streamboost to other libraries."""
