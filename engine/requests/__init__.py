"""Turns a caller's options into requests for batches, streams, groups and hybrid reads."""
