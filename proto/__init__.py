"""The contract: value types, errors, options, the gRPC service's stubs, codec and client.

Belongs here: what the enumerator, a reader and an engine must agree on. Values and errors use the standard library
only; grpc and protobuf appear in `v1`, `codec`, `rpc_errors` and `client` alone. Nothing here touches a table.
"""
