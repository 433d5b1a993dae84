"""gRPC handlers, the interceptor before them, and their limits.

Belongs here: one handler per call of the contract, deadlines, limits and mapping of errors. Not here: who may make a
call (`auth`).
"""
