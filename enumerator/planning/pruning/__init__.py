"""What a predicate excludes before it is listed or read: partitions, files."""
