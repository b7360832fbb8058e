"""Label Studio: client of its HTTP API, and projects for labelling by annotators."""
