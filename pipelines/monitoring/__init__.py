"""Monitoring of a running pipeline: log, last error, health checks and Prometheus metrics."""
