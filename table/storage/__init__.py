"""File systems: open, list and read a table's files, and classify the failures of object stores.

Belongs here: paths, reads, storage errors. Not here: the meaning of a file."""
