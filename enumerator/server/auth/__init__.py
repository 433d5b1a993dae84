"""TLS, tokens, callers and access rules.

Belongs here: who a caller is, and which calls a caller may make. Not here: limits on calls (`rpc`).
"""
