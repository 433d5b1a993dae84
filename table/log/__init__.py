"""Hudi's log file format: block framing, headers, delete blocks, record positions.

Belongs here: parsing of log bytes, with every length checked. Not here: which blocks are valid, merging (reader).
"""
