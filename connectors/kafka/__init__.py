"""Apache Kafka: topic sources and sinks, and transactions that commit a batch to a cluster."""
