"""The options of reads, streams and consumer groups: one registry of names, types, defaults and help, and its parser.

Belongs here: an option, a type of value, a rule for the name that Hudi or Flink gives an option. Not here: what an
option means for a table (`penstock.engine.requests`). Standard library only, no I/O.
"""
