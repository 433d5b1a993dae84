"""Steps of a clean: planned as an instant, and carried out.

Belongs here: the state of a table that a clean depends on, and the instant of the clean. Not here: `penstock.clean`
with its options (`engine.table_services.clean`), and which files go (`writer.table_services.cleaning`).
"""
