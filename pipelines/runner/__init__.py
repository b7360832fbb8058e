"""Pipeline runner: pipeline state and step, the polling loop, and recovery by replay."""
