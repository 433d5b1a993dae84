"""The reader of a consumer group: its connection, lease, splits and commits.

Not here: its options (`engine.requests.group`), how a split is read (`penstock.reader`).
"""
