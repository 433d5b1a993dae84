"""Kafka, as far as hybrid reads need it: what a topic is now, and the records of a range of it.

Belongs here: the one place where a Kafka client is used, behind two small seams (`doors`). Not here: which ranges are
read (enumerator), what records mean as rows (reader). Imports `penstock.proto` values and errors only; confluent-kafka
(the extra `kafka`) is imported when a client is made.
"""
