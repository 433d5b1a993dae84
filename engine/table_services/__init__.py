"""Table services of Hudi: compaction, clustering, clean, archival, savepoints and restores.

Belongs here: what a user asks for, and the order of a service: plan, files, commit. Not here: what a service selects
(`writer.table_services`), the steps of a transaction (`writer.transaction`), and the table format (`table`).
"""
