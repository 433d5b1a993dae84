"""Writes of Hudi tables from Arrow: `penstock.create_table`, `penstock.write`.

Belongs here: what a user asks for, and the order of a write: plan, files, commit. Not here: the steps of a transaction,
indexes and files (`penstock.writer`), and the table format (`penstock.table`).
"""
