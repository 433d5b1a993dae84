"""What a table service selects: groups to compact, files to delete, instants to archive. Pure.

Belongs here: decisions over file slices and timelines. Not here: reading and writing files.
"""
