"""The tables that a process has open or serves: by path, by name, and whether each can be opened."""
