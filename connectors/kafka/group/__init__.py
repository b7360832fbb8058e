"""Apache Kafka: consumer group members, and their transactions."""
