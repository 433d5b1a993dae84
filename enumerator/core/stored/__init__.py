"""The stored form of the state: its records as bytes, and the compaction of their log."""
