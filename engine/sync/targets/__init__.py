"""The targets of a sync: one module for each system, which writes rows and positions in one transaction.

Belongs here: types of the system, its transactions and its errors. Not here: which rows are written (`engine.sync`).
"""
