"""The `penstock` command: one file a noun. stdout carries data only."""
