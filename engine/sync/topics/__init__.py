"""Topics of change events as sources of a sync, many of them read by one consumer.

Belongs here: the place in a job, columns and key of a topic, its position, its rounds. Not here: Kafka's client
(`penstock.kafka`), the decoding of events (`penstock.reader.topics`).
"""
