"""One reader of a consumer group: lease, splits, commits."""
