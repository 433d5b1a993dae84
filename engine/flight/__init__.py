"""Arrow Flight: tables for clients in any language, on pyarrow's Flight server.

Belongs here: descriptors, tickets, streams and the calls of the server. Not here: planning and reading
(`engine.read_tasks`), tokens and access rules (`enumerator.server.auth`).
"""
