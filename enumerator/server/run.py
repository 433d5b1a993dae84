"""A running server: `serve` in this process beside other work, `serve_forever` as the process's whole work.

Shell: sockets, threads, signals. Prints nothing; the log is `penstock.enumerator`'s. Loopback only: no TLS yet.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server import limits
from penstock.enumerator.server.group_handlers import GroupHandlers
from penstock.enumerator.server.service import SERVICE_NAME, EnumeratorHandlers, add_to_server
from penstock.proto.addresses import loopback_address
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import ConfigurationError
from penstock.proto.groups import GroupDoor

GRACE_S: Final = 10.0
"""How long calls under way may take after the server was told to stop."""

SIGNAL_POLL_S: Final = 0.25


class RunningServer:
    """A server that takes calls at `address` until it is stopped. As a context manager it stops at the end."""

    def __init__(self, address: str, server: grpc.Server, health_state: health.HealthServicer, pools: _Pools) -> None:
        self._address = address
        self._server = server
        self._health = health_state
        self._pools = pools

    @property
    def address(self) -> str:
        """HOST:PORT that is really bound."""
        return self._address

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Takes no new call, gives those under way `grace_s` seconds, then breaks them off. May be called again."""
        self._health.enter_graceful_shutdown()
        self._server.stop(grace_s).wait()
        self._pools.shut_down()

    def wait(self) -> None:
        """Returns when the server was stopped, by whichever thread."""
        self._server.wait_for_termination()

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Pools:
    """The threads of one server."""

    def __init__(self) -> None:
        self.calls = ThreadPoolExecutor(limits.WORKERS, thread_name_prefix="penstock-call")
        self.planning = ThreadPoolExecutor(limits.PLANNING_WORKERS, thread_name_prefix="penstock-plan")

    def shut_down(self) -> None:
        self.calls.shutdown(wait=False, cancel_futures=True)
        self.planning.shutdown(wait=False, cancel_futures=True)


def serve(tables: Mapping[str, str], listen: str) -> RunningServer:
    """Serves the tables (name to path or URI) at `listen`: HOST:PORT on the loopback interface, port 0 to let the
    system choose. Each table is opened first, so that a wrong path fails here, with the table's error.

    ConfigurationError if the address is not loopback, or is taken.
    """
    loopback_address(listen, any_port=True)
    if not tables:
        raise ConfigurationError("no table to serve: name at least one, as NAME=PATH")
    enumerator = EmbeddedEnumerator(tables)
    enumerator.check_tables()
    return serve_enumerator(enumerator, listen)


def serve_enumerator(enumerator: Enumerator, listen: str, groups: GroupDoor | None = None) -> RunningServer:
    """Serves any enumerator, as `serve` does; with `groups` also consumer groups."""
    loopback_address(listen, any_port=True)
    pools = _Pools()
    server = grpc.server(
        pools.calls,
        options=[
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", limits.MAX_REQUEST_BYTES),
            ("grpc.max_send_message_length", limits.MAX_ANSWER_BYTES),
        ],
        maximum_concurrent_rpcs=limits.MAX_CALLS,
    )
    health_state = health.HealthServicer(experimental_non_blocking=True, experimental_thread_pool=pools.calls)
    health_pb2_grpc.add_HealthServicer_to_server(health_state, server)
    add_to_server(EnumeratorHandlers(enumerator), server, pools.planning, GroupHandlers(groups).by_call())
    try:
        port = server.add_insecure_port(listen)
        server.start()
    except RuntimeError as error:
        pools.shut_down()
        raise ConfigurationError(f"cannot listen at {listen}: is the port taken by another process?") from error
    for name in (health.OVERALL_HEALTH, SERVICE_NAME):
        health_state.set(name, health_pb2.HealthCheckResponse.SERVING)
    return RunningServer(f"{listen.rpartition(':')[0]}:{port}", server, health_state, pools)


def serve_forever(
    tables: Mapping[str, str], listen: str, ready: Callable[[str], None], grace_s: float = GRACE_S
) -> None:
    """`serve`, until SIGTERM or SIGINT; then returns after a graceful stop. Main thread only (signals).

    `ready` is called with the bound address once calls are taken. A second signal ends the calls under way at once.
    """
    with _ended_by_signal() as ended:
        server = serve(tables, listen)
        try:
            ready(server.address)
            while not ended.wait(SIGNAL_POLL_S):  # Python runs no handler inside a wait that the signal just missed
                pass
        finally:
            server.stop(grace_s)


@contextmanager
def _ended_by_signal() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set while the block runs; the second one has its usual effect again."""
    ended = threading.Event()
    before: dict[int, Callable[[int, FrameType | None], object] | int | signal.Handlers] = {}

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()
        signal.signal(number, before[number])

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.getsignal(number) or signal.SIG_DFL
        signal.signal(number, end)
    try:
        yield ended
    finally:
        for handled in before:
            signal.signal(handled, before[handled])
