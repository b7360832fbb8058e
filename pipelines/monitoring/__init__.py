"""What a running pipeline tells those who watch over it: log, last error, metrics."""
