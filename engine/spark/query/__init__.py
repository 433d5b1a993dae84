"""Reads whose columns and filters reach the scan: `sql`, `table` and `explain` of `penstock.spark`.

Belongs here: which columns and conditions of a query a scan can take without a change of the answer. Not here: the data
source itself (`source`), the grammar of `where` (`penstock.table.predicate`).
"""
