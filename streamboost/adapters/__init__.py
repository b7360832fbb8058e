"""streamboost inside other libraries."""
