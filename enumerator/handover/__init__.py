"""Hand-over of a hybrid read from the table to the Kafka topic that fills it.

Belongs here: the topic offsets at which a table ends, and rounds of the topic after them. `offsets`, `offset_formats`,
`commit_offsets`, `offset_search`, `offset_fallbacks`, `explain` and `topic_position` are pure. `table_commits` reads
the timeline, `spark_checkpoints` a query's checkpoint; `resolve`, `phases` and `topic_plans` combine them.

Not here: rounds of the table (`continuous`), Kafka clients (`penstock.kafka`), decoding of records (`penstock.reader`),
options and output (`penstock.engine.cli`).
"""
