"""The comparison of Penstock with other readers of the same tables (`bench/compare.py`).

Belongs here: tables, questions, contestants, measurement of a turn, targets, the report. Not here: benches of parts of
Penstock that have no counterpart in other readers (the scripts in `bench/`).
"""
