"""Pipeline files to start from."""
