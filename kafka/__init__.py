"""Kafka clients for hybrid reads: metadata of topics, records of ranges, schemas of a schema registry.

Belongs here: all use of confluent-kafka, as implementations of `penstock.kafka.protocols`. Not here: which ranges
are read (enumerator), and how records become rows (reader). Imports the values and errors of `penstock.proto` only.
confluent-kafka (the extra `kafka`) is imported when a client is created.
"""
