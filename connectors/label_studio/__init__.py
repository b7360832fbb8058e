"""Label Studio: its interface for programs, and a project in which people answer."""
