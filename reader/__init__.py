"""Data plane: one split in, merged Arrow batches out.

`read_split` is the one way in. Never lists a directory, never reads `.hoodie`, never imports the enumerator or the
engine.
"""
