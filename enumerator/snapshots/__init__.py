"""Snapshots in rounds: the list of splits, in event-time order, and its plans."""
