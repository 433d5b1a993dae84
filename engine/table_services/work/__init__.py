"""A member of a worker group: it gets splits of table services from a server, and carries them out.

Belongs here: which services of a table are due, for the server; the loop of a member; what one split does. Not here:
the services themselves.
"""
