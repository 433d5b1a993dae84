"""Data plane: reads one split as merged Arrow batches.

`read_split` is the entry point. The reader never lists a folder, never reads `.hoodie`, and never imports the
enumerator or the engine.

Belongs here: `read_split` and the ways to read a split. Each step has its own folder: `base` and `log` read files,
`merge` merges, `cdc` reads changes, `topics` reads Kafka, `split` has what all reads share.
"""
