"""What the commands do: run, check, inspect, verify, and what these put together."""
