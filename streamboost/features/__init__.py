"""Fields of records as columns of arrays: numbers, categories, texts, times and vectors."""
