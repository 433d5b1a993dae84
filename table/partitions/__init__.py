"""Partition paths: the values that they hold, and which partitions a predicate excludes."""
