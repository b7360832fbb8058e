"""Conversion of record fields to numeric columns: numbers, categories, texts, times, vectors."""

from streamboost.features.features import Features
from streamboost.features.fields import Field

__all__ = ["Features", "Field"]
