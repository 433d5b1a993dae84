"""The comparison of writes of Penstock with those of Hudi's bundle in Spark (`bench/writes.py`).

Belongs here: what is written, the two writers, peak memory, the report. Not here: the rows and the Spark process, which
the comparison of readers has too (`bench.compared`).
"""
