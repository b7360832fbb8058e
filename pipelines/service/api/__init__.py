"""HTTP API of `serve`, under `/api/v1`."""
