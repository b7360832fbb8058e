"""The pages in a real browser. The folder is a package, so that its fixtures end with it."""
