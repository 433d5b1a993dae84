"""The gRPC client of a server: shared channels, certificates, and the calls of the plan API and of consumer groups.

Belongs here: connections, deadlines and retries of calls. Not here: the meaning of messages and failures
(`penstock.proto.codec`).
"""
