"""Debezium's envelope, in JSON and Avro."""
