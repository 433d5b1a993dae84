"""Child processes in which libraries decode base files: those of ORC and Lance, which end their process at some damaged
files.

Belongs here: the processes, their program, and the requests of each library. Not here: the table's columns and batches
(`orc_file`, `lance_file`), footers (`penstock.table.orc`, `penstock.table.lance`).
"""
