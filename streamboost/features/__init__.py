"""Fields of records as columns of arrays: numbers, categories, texts, times and vectors."""

from streamboost.features.features import Features
from streamboost.features.fields import Field

__all__ = ["Features", "Field"]
