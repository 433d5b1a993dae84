"""A separate port for the health service, without TLS, for Kubernetes probes, which have no certificates.

It serves only `grpc.health.v1.Health`, without authentication. `run` sets the status.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2_grpc

from penstock.proto.errors import ConfigurationError

MAX_CALLS: Final = 20
"""Concurrent calls; further ones are refused at once."""
_LARGEST_BYTES: Final = 4096


@contextmanager
def health_port(state: health.HealthServicer, listen: str) -> Iterator[str]:
    """The address that serves `state` while the block runs; '' without `listen`. ConfigurationError: it is in use."""
    if not listen:
        yield ""
        return
    options = [("grpc.max_receive_message_length", _LARGEST_BYTES), ("grpc.so_reuseport", 0)]
    server = grpc.server(
        ThreadPoolExecutor(2, thread_name_prefix="penstock-health"), options=options, maximum_concurrent_rpcs=MAX_CALLS
    )
    health_pb2_grpc.add_HealthServicer_to_server(state, server)
    try:
        port = server.add_insecure_port(listen)
        server.start()
    except RuntimeError as error:
        raise ConfigurationError(
            f"healthListen: cannot listen at {listen}: is the port taken by another process?"
        ) from error
    try:
        yield f"{listen.rpartition(':')[0]}:{port}"
    finally:
        server.stop(0).wait()
