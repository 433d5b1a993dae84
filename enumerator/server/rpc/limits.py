"""The limits of one server: threads, deadlines, and the gRPC options for the configured limits. Imports no gRPC."""

from __future__ import annotations

from typing import Final

from penstock.enumerator.server.config.settings import LimitSettings
from penstock.proto.errors import ConfigurationError, StorageError

WORKERS: Final = 128
"""Threads for the short calls, which do no I/O and hold a lock for microseconds. They are created on demand. There are
more than one connection may have calls, because gRPC holds a thread while the bytes of a request arrive, and one slow
peer must not hold all of them."""
MAX_HELD: Final = WORKERS
"""Calls that are held until there are splits. Each occupies a thread, beside the WORKERS threads of the other calls."""
PLANNING_WORKERS: Final = 4
"""Concurrent calls that open and describe tables; a table without a running call may run one more (`turns`). These
calls list storage. They have a separate pool of WORKERS threads, so that readers never wait for them."""
MAX_INSTANTS: Final = 5_000
"""Instants of one page of a timeline: at most 2 MB, because the name of a file has at most 255 characters."""
MAX_REQUEST_BYTES: Final = 4 << 20
KEEPALIVE_MS: Final = 60_000
KEEPALIVE_TIMEOUT_MS: Final = 20_000
"""An idle connection is probed every KEEPALIVE_MS, and closed without a response within KEEPALIVE_TIMEOUT_MS."""
MAX_DEADLINE_S: Final = 3600.0


def require_deadline(remaining_s: float | None) -> float:
    """The remaining time. ConfigurationError: the call has no deadline, or one later than MAX_DEADLINE_S. StorageError:
    the deadline passed while the call waited for a thread; it must cost no further work."""
    if remaining_s is None or remaining_s > MAX_DEADLINE_S:
        raise ConfigurationError(
            f"the call has no deadline within {MAX_DEADLINE_S:.0f} s: set one, so that a lost answer ends"
        )
    if remaining_s <= 0:
        raise StorageError("the deadline passed before the call was begun: the server is overloaded")
    return remaining_s


def channel_options(limits: LimitSettings) -> list[tuple[str, int]]:
    """The limits that gRPC enforces. Two early pings are tolerated; the third closes the connection."""
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
