"""Distributed scoring: scorers in a consumer group predict, and one learner process trains."""
