"""Streams of the range door: where one begins, how far its next batch goes, and which watermark that carries.

Belongs here: snapshots in event-time order, what is still to come, watermarks. Not here: ranges, limits, late instants
(`watch`), what a range's splits are (`planner`), consumer groups (`core`).
"""
