"""Files: JSON Lines, CSV, Parquet, and standard input."""
