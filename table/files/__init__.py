"""Data files: names, listing of folders, and file slices.

Belongs here: which files form a slice. Not here: which slices a query reads (enumerator), log blocks (`table.log`).
"""
