"""Apache Kafka: messages in formats whose schemas a registry keeps."""
