"""The tables that a process has open."""
