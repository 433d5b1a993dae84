"""Data plane of writes: the rows of a file group become data files and write statistics.

A write merges by the code that reads: the writer imports `reader.merge` and the decoders. Only the engine imports it.

Belongs here: rows with keys, indexes, data files, the transaction of an instant. Not here: bytes of Hudi's formats
(`table`), options and results of a call (`engine`).
"""
