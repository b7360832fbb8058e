"""Published status of a pipeline: ``status.db`` in the state folder, its writer and readers."""
