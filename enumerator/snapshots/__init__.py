"""The snapshot at the start of a stream: its list of splits in event-time order, and the parts that batches read.

Belongs here: order, identity and parts of the list. Not here: how far a batch goes and its watermark (`streams`).
"""
