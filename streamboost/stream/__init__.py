"""When to learn: working set, schedule and the stream learner."""
