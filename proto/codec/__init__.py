"""Encodes the values of the contract as messages of `penstock.v1`, as bytes and as JSON, and decodes them.

Belongs here: the pair of functions of a value, a call or an error. Not here: calls (`penstock.proto.client` and the
server). Both sides check every field of a message before it becomes a value: a request is untrusted to the server, an
answer to the client.
"""
