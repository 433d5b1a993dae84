"""What one server takes: threads, deadlines, and gRPC's options for its limits. Numbers and one check, no gRPC."""

from __future__ import annotations

from typing import Final

from penstock.enumerator.server.config.settings import LimitSettings
from penstock.proto.errors import ConfigurationError, StorageError

WORKERS: Final = 128
"""Threads that answer the short calls: no I/O, a lock for microseconds. Made as they are needed, and more than one
connection may have calls: gRPC holds a thread while a request's bytes arrive, and a slow peer must not take all."""
PLANNING_WORKERS: Final = 4
"""Calls at a time that open and describe tables, and beyond them one of each table that has none running (`turns`):
they list storage, on threads of their own (as many as WORKERS), so that readers never wait behind them."""
MAX_REQUEST_BYTES: Final = 4 << 20
KEEPALIVE_MS: Final = 60_000
KEEPALIVE_TIMEOUT_MS: Final = 20_000
"""A silent connection is probed so often, and closed if the probe is not answered in this time."""
MAX_DEADLINE_S: Final = 3600.0


def require_deadline(remaining_s: float | None) -> float:
    """The time that is left. ConfigurationError for a call without a deadline, or with one further off than
    MAX_DEADLINE_S; StorageError for one that waited for a thread until its caller gave up: it must not cost
    any work."""
    if remaining_s is None or remaining_s > MAX_DEADLINE_S:
        raise ConfigurationError(
            f"the call has no deadline within {MAX_DEADLINE_S:.0f} s: set one, so that a lost answer ends"
        )
    if remaining_s <= 0:
        raise StorageError("the deadline passed before the call was begun: the server is overloaded")
    return remaining_s


def channel_options(limits: LimitSettings) -> list[tuple[str, int]]:
    """The limits that gRPC itself keeps. Two pings that come too soon are borne, the third closes the connection."""
    return [
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", limits.request_bytes),
        ("grpc.max_send_message_length", limits.answer_bytes),
        ("grpc.max_metadata_size", limits.metadata_bytes),
        ("grpc.absolute_max_metadata_size", limits.metadata_bytes),
        ("grpc.max_concurrent_streams", limits.streams_per_connection),
        ("grpc.http2.min_ping_interval_without_data_ms", limits.least_ping_ms),
        ("grpc.http2.max_ping_strikes", 2),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
        ("grpc.max_connection_age_ms", limits.connection_age_ms),
        ("grpc.max_connection_age_grace_ms", limits.connection_grace_ms),
        ("grpc.server_handshake_timeout_ms", limits.handshake_ms),
    ]
