"""Streams of the plan API: their start, the end of their next batch, and the watermark of a batch.

Belongs here: snapshots in event-time order, splits that are still to come, watermarks. Not here: ranges, limits and
late instants (`continuous`), which splits a range has (`planning`), consumer groups (`core`).
"""
