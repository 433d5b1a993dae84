"""A running server: `serve` in this process beside other work, `serve_forever` as the process's whole work.

Shell: sockets, threads, signals. Prints nothing; the log is `penstock.enumerator`'s. Belongs here: how the parts of a
server are put together. Not here: what each of them decides.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType, TracebackType
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from penstock.enumerator.clocks import wall_ms
from penstock.enumerator.groups.activity import Activity
from penstock.enumerator.observer import NO_OBSERVER, Observer, TokensLoaded
from penstock.enumerator.planning.annotate import EventTimeScan
from penstock.enumerator.server.assembly import EndedWhileWaiting, ServiceToCome, built
from penstock.enumerator.server.auth.acl import Rights, warnings_of
from penstock.enumerator.server.auth.callers import CallerNames
from penstock.enumerator.server.auth.tls import server_credentials
from penstock.enumerator.server.auth.tokens import TokenFile, TokenRefresh
from penstock.enumerator.server.config.settings import Settings, TableSettings
from penstock.enumerator.server.http.health_port import health_port
from penstock.enumerator.server.metrics.prometheus import Metrics, MetricsPort
from penstock.enumerator.server.rpc import limits
from penstock.enumerator.server.rpc.call_metrics import CallMetrics
from penstock.enumerator.server.rpc.group_handlers import GroupHandlers
from penstock.enumerator.server.rpc.handlers import SERVICE_NAME, EnumeratorHandlers, PlanningPool, add_to_server
from penstock.enumerator.server.rpc.interceptor import Guard, Readiness
from penstock.enumerator.server.rpc.rate_limit import PeerRates
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import ConfigurationError, PenstockError
from penstock.proto.model.access import is_loopback
from penstock.proto.model.groups import GroupService

GRACE_S: Final = 10.0
"""How long calls under way may take after the server was told to stop."""

SIGNAL_POLL_S: Final = 0.25

log = logging.getLogger("penstock.enumerator.server")


class RunningServer:
    """A server that takes calls at `address` until it is stopped. As a context manager it stops at the end."""

    def __init__(
        self,
        address: str,
        server: grpc.Server,
        health_state: health.HealthServicer,
        pools: _Pools,
        readiness: Readiness,
        drain_s: float = 0.0,
    ) -> None:
        self._address = address
        self._server = server
        self._health = health_state
        self._pools = pools
        self._readiness = readiness
        self._drain_s = drain_s
        self._lock = threading.Lock()
        self._stopping = self._broken = self._ready = False
        self._troubles: dict[str, str] = {}
        self._at_end: Callable[[], None] = lambda: None

    @property
    def address(self) -> str:
        """HOST:PORT that is really bound."""
        return self._address

    @property
    def health(self) -> health.HealthServicer:
        """What the health service says, for a port of its own (`health_port`)."""
        return self._health

    def at_end(self, close: Callable[[], None]) -> None:
        """What is closed once the server was stopped."""
        self._at_end = close

    def set_ready(self, ready: bool = True) -> None:
        """Whether calls are answered, and the health service says SERVING: once the state is replayed. Nothing once
        the server was told to stop."""
        with self._lock:
            if self._stopping or self._broken:
                return
            self._ready = ready
            self._readiness.set(ready)
            self._say_now()

    def set_trouble(self, source: str, reason: str) -> None:
        """NOT_SERVING while any source has a reason; '' ends its trouble. Calls are answered all the same."""
        with self._lock:
            self._troubles[source] = reason
            if not (self._stopping or self._broken):
                self._say_now()

    def _say_now(self) -> None:
        states = health_pb2.HealthCheckResponse
        serving = self._ready and not any(self._troubles.values())
        self._say(states.SERVING if serving else states.NOT_SERVING)

    def _say(self, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType) -> None:
        for name in (health.OVERALL_HEALTH, SERVICE_NAME):
            self._health.set(name, status)

    def cannot_go_on(self, error: PenstockError) -> None:
        """The state cannot be kept any more: NOT_SERVING from now on, and every call is told the error."""
        with self._lock:
            if self._stopping or self._broken:
                return
            self._broken = True
            log.critical("not serving any more: %s", error)
            self._readiness.set(False, str(error))
            self._say(health_pb2.HealthCheckResponse.NOT_SERVING)

    def stop(self, grace_s: float = GRACE_S) -> None:
        """The health service says NOT_SERVING first, and calls are taken for the drain time still; then no new call is
        taken, those under way get `grace_s` seconds, and are broken off. May be called again."""
        with self._lock:
            first, self._stopping = not self._stopping, True
            self._health.enter_graceful_shutdown()
        if first and self._drain_s:
            time.sleep(self._drain_s)
        self._server.stop(grace_s).wait()
        self._pools.shut_down()
        if first:
            self._at_end()

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
        self.planning = PlanningPool()
        self.tokens: TokenRefresh | None = None

    def shut_down(self) -> None:
        if self.tokens is not None:
            self.tokens.stop()
        self.calls.shutdown(wait=False, cancel_futures=True)
        self.planning.shutdown(wait=False, cancel_futures=True)


def serve(tables: Mapping[str, str], listen: str, *, scan_event_time: EventTimeScan | None = None) -> RunningServer:
    """Serves the tables (name to path or URI) at `listen`: HOST:PORT on the loopback interface, port 0 to let the
    system choose. Each table is opened first; if none can be, a wrong path fails here, with its error.

    `scan_event_time`: see `OpenTables`. ConfigurationError if the address is not loopback, or is taken.
    """
    settings = Settings(tables={name: TableSettings(path=path) for name, path in tables.items()}, listen=listen)
    with ExitStack() as opened:
        service = opened.enter_context(built(settings, scan_event_time=scan_event_time))
        running = serve_enumerator(service, groups=service, settings=settings)
        service.coordinator.when_lost = running.cannot_go_on
        service.on_trouble(partial(running.set_trouble, "background threads"))
        running.at_end(opened.pop_all().close)
        return running


def serve_enumerator(
    enumerator: Enumerator,
    listen: str = "",
    groups: GroupService | None = None,
    *,
    settings: Settings | None = None,
    observer: Observer = NO_OBSERVER,
    ready: bool = True,
) -> RunningServer:
    """Serves any enumerator at `listen`, or where the settings say; with `groups` also consumer groups. With `ready`
    False it is NOT_SERVING, and refuses calls with a StorageError, until `RunningServer.set_ready`."""
    settings = settings or Settings(listen=listen)
    if listen and listen != settings.listen:
        settings = replace(settings, listen=listen)
    warn_of_open_ports(settings)
    credentials = server_credentials(settings.tls)
    readiness = Readiness(ready)
    tokens = _token_file(settings, observer)
    guard = _guard(enumerator, settings, readiness, tokens)
    pools = _Pools()
    server = grpc.server(
        pools.calls,
        interceptors=[CallMetrics(observer), guard],
        options=limits.channel_options(settings.limits),
        maximum_concurrent_rpcs=settings.limits.calls,
    )
    health_state = health.HealthServicer(experimental_non_blocking=True, experimental_thread_pool=pools.calls)
    health_pb2_grpc.add_HealthServicer_to_server(health_state, server)
    add_to_server(EnumeratorHandlers(enumerator), server, pools.planning, GroupHandlers(groups).by_call())
    if settings.reflection:
        _reflect(server)
    try:
        if credentials is None:
            port = server.add_insecure_port(settings.listen)
        else:
            port = server.add_secure_port(settings.listen, credentials)
        server.start()
    except RuntimeError as error:
        pools.shut_down()
        raise ConfigurationError(
            f"cannot listen at {settings.listen}: is the port taken by another process"
            + ("?" if credentials is None else ", or do tls.cert and tls.key not belong together?")
        ) from error
    address = f"{settings.listen.rpartition(':')[0]}:{port}"
    running = RunningServer(address, server, health_state, pools, readiness, settings.drain_ms / 1000)
    if tokens is not None:
        pools.tokens = TokenRefresh(tokens)
        if not settings.tls.client_ca:  # certificates still let callers in
            tokens.on_status(lambda status: running.set_trouble("tokens", status.problem if status.closed else ""))
    running.set_ready(ready)
    return running


def _token_file(settings: Settings, observer: Observer) -> TokenFile | None:
    if not settings.tokens:
        return None
    tokens = TokenFile(settings.tokens, time.time, grace_s=settings.tokens_grace_ms / 1000)
    tokens.on_status(lambda status: observer.observe(TokensLoaded(status.accepted, not status.problem)))
    return tokens


def _guard(enumerator: Enumerator, settings: Settings, readiness: Readiness, tokens: TokenFile | None) -> Guard:
    names = CallerNames(tokens, certificates=bool(settings.tls.client_ca), allowed_sans=settings.tls.allowed_sans)
    rates = PeerRates(settings.limits.rate_per_second, settings.limits.rate_burst, time.monotonic)
    return Guard(enumerator, names, Rights(settings.acl), rates, readiness)


def warn_of_open_ports(settings: Settings) -> None:
    """Logs what a configuration leaves open: ports off the loopback interface, rules older than the right `consume`."""
    if settings.metrics_listen and not is_loopback(settings.metrics_listen):
        log.warning(
            "metrics and the page at %s, off the loopback interface: without TLS they show names of tables, groups and "
            "readers to anybody who reaches the port",
            settings.metrics_listen,
        )
    for warning in warnings_of(settings.acl):
        log.warning("%s", warning)
    if is_loopback(settings.listen):
        return
    if not settings.tls.cert:
        log.warning("listening at %s without TLS: tokens and rows travel unencrypted", settings.listen)
    if not settings.authenticates:
        log.warning("listening at %s without tokens and client certificates: anybody may read", settings.listen)


def _reflect(server: grpc.Server) -> None:
    try:
        from grpc_reflection.v1alpha import reflection
    except ImportError:
        raise ConfigurationError('reflection needs the extra `server`: pip install "penstock[server]"') from None
    reflection.enable_server_reflection((SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), server)


def serve_forever(
    tables: Mapping[str, str],
    listen: str,
    ready: Callable[[str], None],
    grace_s: float | None = None,
    settings: Settings | None = None,
    *,
    scan_event_time: EventTimeScan | None = None,
) -> None:
    """`serve`, until SIGTERM or SIGINT; then returns after a graceful stop. Main thread only (signals).

    `settings` take the place of `tables` and `listen`. `ready` is called with the bound address once calls are taken. A
    second signal ends the calls under way at once.
    """
    if settings is None:
        settings = Settings(tables={name: TableSettings(path=path) for name, path in tables.items()}, listen=listen)
    activity = Activity(wall_ms, threading.Lock())
    with _ended_by_signal() as ended, _measured(settings, activity) as observer:
        to_come = ServiceToCome()
        server = serve_enumerator(to_come, groups=to_come, settings=settings, observer=observer, ready=False)
        try:
            with (
                health_port(server.health, settings.health_listen) as probed,
                built(settings, observer, ended, scan_event_time, activity) as service,
            ):
                if probed:
                    log.info("health for probes at %s", probed)
                to_come.set(service)
                service.coordinator.when_lost = server.cannot_go_on
                service.on_trouble(partial(server.set_trouble, "background threads"))
                server.set_ready()
                ready(server.address)
                while not ended.wait(SIGNAL_POLL_S):  # Python runs no handler inside a wait that the signal just missed
                    service.check_threads()
                server.stop(settings.grace_ms / 1000 if grace_s is None else grace_s)
        except EndedWhileWaiting:
            log.info("told to end while another server held the state")
        finally:
            server.stop(0)


@contextmanager
def _measured(settings: Settings, activity: Activity) -> Iterator[Observer]:
    """The observer of a server process, with its port open while the block runs; nobody without `metrics_listen`."""
    if not settings.metrics_listen:
        yield NO_OBSERVER
        return
    metrics = Metrics()
    port = MetricsPort(metrics, settings.metrics_listen, activity)
    log.info("metrics at http://%s/metrics, a page at http://%s/", port.address, port.address)
    try:
        yield metrics
    finally:
        port.close()


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
