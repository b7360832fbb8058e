"""When a committee is trained, on what, and which one serves."""
