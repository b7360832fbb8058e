"""Apache Kafka: message formats with a schema registry (Avro, JSON Schema)."""
