"""Conversions of Arrow values, independent of files and splits.

Belongs here: widening, Java's text of numbers, dictionary-encoded text, record keys, and the memory that values are
allocated in.
"""
