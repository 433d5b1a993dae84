"""Hudi's log file format to the byte: block framing, headers, delete blocks, record positions.

Belongs here: parsing of log bytes, every length bounds-checked. Not here: which blocks count, or what wins (reader).
"""
