"""Apache Kafka: topics as sources and sinks, and commits to a cluster as one transaction."""
