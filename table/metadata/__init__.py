"""The metadata table: the Hudi table under `.hoodie/metadata` in which writers keep listings and statistics.

Belongs here: which of its content is valid, its file slices and records, the `files` partition as a listing, column
and partition statistics. Not here: the HFile format (`penstock.table.hfile.reader`), what a query needs of a listing
or of statistics (enumerator). It is an index of a table that can be read without it: nothing here may fail a read.
"""
