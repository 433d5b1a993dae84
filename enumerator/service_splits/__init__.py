"""Table services as splits: which are due by the policy of each table, and which member of the worker group has which.

Belongs here: what is handed out, to whom, and when again. Not here: what is due, which a `DueServices` says that is
given by whoever runs the server, and what a member does.
"""
