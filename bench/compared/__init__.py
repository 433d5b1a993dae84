"""Penstock beside other readers of the same tables: what `bench/compare.py` is made of.

Belongs here: tables, questions, who answers them, how a turn is measured, what the figures are held against, the
report. Not here: benches of parts of Penstock that have no peer (the scripts beside this folder).
"""
