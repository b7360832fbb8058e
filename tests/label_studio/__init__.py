"""Label Studio for tests: a stand-in, and the real server if installed, with the same interface."""
