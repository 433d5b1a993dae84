"""Readers that hold the cleaner of a table.

Belongs here: where readers are, by a server or a checkpoint. Not here: when a reader holds the cleaner
(`writer.table_services.cleaner_holds`), and what a clean keeps for it (`writer.table_services.retention`).
"""
