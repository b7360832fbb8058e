"""Growing one tree: counting, split search and partition, kernels that call each other."""
