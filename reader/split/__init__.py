"""The read of one split: its columns, constants, filters, batches and report, used by every way to read one.

Belongs here: what a file slice, changes and a topic range have in common. Not here: files (`base`, `log`), merging
(`merge`), which way a split is read (`penstock.reader.read_split`).
"""
