"""Label queue of `serve`: leases of requested records, and labels by annotators."""
