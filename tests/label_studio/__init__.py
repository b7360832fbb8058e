"""Label Studio for tests: a stand-in, and the real one where it is installed, behind one front."""
