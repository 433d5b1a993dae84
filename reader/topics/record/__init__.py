"""The decoded form of a chunk of Kafka records, and the columns to decode; independent of the value format."""
