"""Event-time bounds of splits, from footers, statistics and paths."""
