"""The command line: one file a command, which imports its work when it is called."""
