"""Maintenance of a table: the services that are due.

Belongs here: which services a maintenance runs, and its result. Not here: the services (`engine.table_services`), and
when one is due (`writer.table_services.maintenance`).
"""
