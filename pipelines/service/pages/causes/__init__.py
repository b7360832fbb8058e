"""From a figure to its cause: pages about records, versions, features and dead letters."""
