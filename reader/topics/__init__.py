"""Records of a Kafka topic as rows of the table, or as changes by key.

May be added: another form of values (a decoder each, `decoded.ValuesDecoder`, and a line in `forms`). Not here: clients
(`penstock.kafka`, seen through its doors only), which ranges are read (enumerator).
"""
