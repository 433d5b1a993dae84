"""Settings of a server, and their configuration file.

Belongs here: keys, defaults, ranges and the file's format. Not here: what a setting changes.
"""
