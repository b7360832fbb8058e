"""The pages in the browser: dashboard and labelling."""
