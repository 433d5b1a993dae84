"""The contract between enumerator, readers and engines: values, errors, options, the gRPC service's stubs, its codec
and its client.

Belongs here: what the enumerator, a reader and an engine must agree on. Not here: access to tables. Values, errors and
options use the standard library only; grpc and protobuf are imported in `v1`, `codec` and `client` only. Imports
between the parts go from `client` to `codec` and `options`, from these to `model` and `retry`, and from there to
`errors`, `logging` and `v1`.
"""
