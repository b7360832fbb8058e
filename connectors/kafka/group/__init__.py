"""Apache Kafka: members of a consumer group, and what they commit."""
