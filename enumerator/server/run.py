"""Runs a server: `serve` in the background of this process, `serve_forever` as the whole work of a process.

It assembles the parts of a server: sockets, threads, signals. It prints nothing and logs to `penstock.enumerator`.
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
from penstock.enumerator.server.assembly import (
    NO_FUNCTIONS,
    DeferredService,
    EndedWhileWaiting,
    TableFunctions,
    running_service,
)
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
from penstock.enumerator.server.rpc.service_split_handlers import ServiceSplitHandlers
from penstock.enumerator.server.rpc.table_handlers import TableHandlers
from penstock.enumerator.server.rpc.write_handlers import WriteHandlers
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import ConfigurationError, PenstockError
from penstock.proto.group_service import GroupService
from penstock.proto.model.access import is_loopback
from penstock.proto.model.catalogs import TableService
from penstock.proto.service_split_service import ServiceSplitService
from penstock.proto.write_service import WriteService

GRACE_S: Final = 10.0
"""How long calls in progress may take after `stop` was called."""

SIGNAL_POLL_S: Final = 0.25

log = logging.getLogger("penstock.enumerator.server")


class RunningServer:
    """A server that accepts calls at `address` until it is stopped. As a context manager it stops on exit."""

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
        """The bound address, HOST:PORT."""
        return self._address

    @property
    def health(self) -> health.HealthServicer:
        """The state of the health service, for a separate port (`health_port`)."""
        return self._health

    def at_end(self, close: Callable[[], None]) -> None:
        """Sets the function that is called after the server has stopped."""
        self._at_end = close

    def set_ready(self, ready: bool = True) -> None:
        """Sets whether calls are answered and the health status is SERVING, which requires a replayed state. No effect
        after `stop` or `cannot_continue`."""
        with self._lock:
            if self._stopping or self._broken:
                return
            self._ready = ready
            self._readiness.set(ready)
            self._update_health()

    def set_trouble(self, source: str, reason: str) -> None:
        """Sets the health status to NOT_SERVING while any source has a reason; '' clears it. Calls are answered."""
        with self._lock:
            self._troubles[source] = reason
            if not (self._stopping or self._broken):
                self._update_health()

    def _update_health(self) -> None:
        states = health_pb2.HealthCheckResponse
        serving = self._ready and not any(self._troubles.values())
        self._set_health(states.SERVING if serving else states.NOT_SERVING)

    def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType) -> None:
        for name in (health.OVERALL_HEALTH, SERVICE_NAME):
            self._health.set(name, status)

    def cannot_continue(self, error: PenstockError) -> None:
        """The state cannot be written any more: sets NOT_SERVING, and every call fails with the error."""
        with self._lock:
            if self._stopping or self._broken:
                return
            self._broken = True
            log.critical("not serving any more: %s", error)
            self._readiness.set(False, error.for_clients or str(error))
            self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Sets NOT_SERVING and accepts calls for the drain time. Then it refuses new calls, and cancels calls in
        progress after `grace_s` seconds. May be called again."""
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
        """Returns after any thread has stopped the server."""
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
        self.calls = ThreadPoolExecutor(limits.WORKERS + limits.MAX_HELD, thread_name_prefix="penstock-call")
        self.planning = PlanningPool()
        self.tokens: TokenRefresh | None = None

    def shut_down(self) -> None:
        if self.tokens is not None:
            self.tokens.stop()
        self.calls.shutdown(wait=False, cancel_futures=True)
        self.planning.shutdown(wait=False, cancel_futures=True)


def serve(
    tables: Mapping[str, str],
    listen: str,
    *,
    functions: TableFunctions = NO_FUNCTIONS,
    poll_interval_ms: int | None = None,
) -> RunningServer:
    """Serves the tables (name to path or URI) at `listen`: HOST:PORT on the loopback interface; port 0 lets the system
    choose. Each table is opened first. If none can be opened, this raises the error of the first one.

    `poll_interval_ms`: see `Settings`; None: its default. ConfigurationError if the address is not loopback, or is in
    use.
    """
    served = {name: TableSettings(path=path) for name, path in tables.items()}
    settings = Settings(tables=served, listen=listen)
    if poll_interval_ms is not None:
        settings = replace(settings, poll_interval_ms=poll_interval_ms)
    with ExitStack() as opened:
        service = opened.enter_context(running_service(settings, functions=functions))
        running = serve_enumerator(
            service,
            groups=service,
            tables=service,
            writes=service.writes,
            service_splits=service.service_splits,
            settings=settings,
        )
        service.coordinator.when_lost = running.cannot_continue
        service.on_trouble(partial(running.set_trouble, "background threads"))
        running.at_end(opened.pop_all().close)
        return running


def serve_enumerator(
    enumerator: Enumerator,
    listen: str = "",
    groups: GroupService | None = None,
    *,
    tables: TableService | None = None,
    writes: WriteService | None = None,
    service_splits: ServiceSplitService | None = None,
    settings: Settings | None = None,
    observer: Observer = NO_OBSERVER,
    ready: bool = True,
) -> RunningServer:
    """Serves any enumerator at `listen`, or at the address of the settings; with `groups` also consumer groups, with
    `tables` also the calls that list and administer tables, with `writes` also write transactions, with
    `service_splits` also table services. With `ready` False its status is NOT_SERVING and calls fail with a
    StorageError, until `RunningServer.set_ready`."""
    settings = settings or Settings(listen=listen)
    if listen and listen != settings.listen:
        settings = replace(settings, listen=listen)
    warn_of_open_ports(settings)
    credentials = server_credentials(settings.tls)
    readiness = Readiness(ready)
    tokens = _token_file(settings, observer)
    rights = Rights(settings.acl)
    guard = _guard(enumerator, settings, rights, readiness, tokens)
    pools = _Pools()
    server = grpc.server(
        pools.calls,
        interceptors=[CallMetrics(observer), guard],
        options=limits.channel_options(settings.limits),
        maximum_concurrent_rpcs=settings.limits.calls,
    )
    health_state = health.HealthServicer(experimental_non_blocking=True, experimental_thread_pool=pools.calls)
    health_pb2_grpc.add_HealthServicer_to_server(health_state, server)
    by_call = {
        **GroupHandlers(groups, settings.limits).by_call(),
        **TableHandlers(tables, rights).by_call(),
        **WriteHandlers(writes).by_call(),
        **ServiceSplitHandlers(service_splits).by_call(),
    }
    add_to_server(EnumeratorHandlers(enumerator), server, pools.planning, by_call)
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


def _guard(
    enumerator: Enumerator, settings: Settings, rights: Rights, readiness: Readiness, tokens: TokenFile | None
) -> Guard:
    names = CallerNames(tokens, certificates=bool(settings.tls.client_ca), allowed_sans=settings.tls.allowed_sans)
    rates = PeerRates(settings.limits.rate_per_second, settings.limits.rate_burst, time.monotonic)
    return Guard(enumerator, names, rights, rates, readiness)


def warn_of_open_ports(settings: Settings) -> None:
    """Logs a warning for each open port off the loopback interface, and for rules older than the right `consume`."""
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
    functions: TableFunctions = NO_FUNCTIONS,
) -> None:
    """Serves until SIGTERM or SIGINT, then returns after a graceful stop. Main thread only (signals).

    `settings` replaces `tables` and `listen`. `ready` is called with the bound address when calls are accepted. A
    second signal ends the calls in progress at once.
    """
    if settings is None:
        settings = Settings(tables={name: TableSettings(path=path) for name, path in tables.items()}, listen=listen)
    activity = Activity(wall_ms, threading.Lock(), settings.limits.shown)
    with _ended_by_signal() as ended, _measured(settings, activity) as observer:
        deferred = DeferredService()
        server = serve_enumerator(
            deferred,
            groups=deferred,
            tables=deferred,
            writes=deferred.writes,
            service_splits=deferred.service_splits,
            settings=settings,
            observer=observer,
            ready=False,
        )
        try:
            with (
                health_port(server.health, settings.health_listen) as health_address,
                running_service(settings, observer, ended, functions, activity) as service,
            ):
                if health_address:
                    log.info("health for probes at %s", health_address)
                deferred.set(service)
                service.coordinator.when_lost = server.cannot_continue
                service.on_trouble(partial(server.set_trouble, "background threads"))
                server.set_ready()
                ready(server.address)
                while not ended.wait(SIGNAL_POLL_S):  # a timeout: a signal just before the wait is handled after it
                    service.check_threads()
                server.stop(settings.grace_ms / 1000 if grace_s is None else grace_s)
        except EndedWhileWaiting:
            log.info("stopped while another server held the state")
        finally:
            server.stop(0)


@contextmanager
def _measured(settings: Settings, activity: Activity) -> Iterator[Observer]:
    """The observer of a server process, with its port open in the block; NO_OBSERVER without `metrics_listen`."""
    if not settings.metrics_listen:
        yield NO_OBSERVER
        return
    metrics = Metrics(max_names=settings.limits.shown)
    port = MetricsPort(metrics, settings.metrics_listen, activity)
    log.info("metrics at http://%s/metrics, a page at http://%s/", port.address, port.address)
    try:
        yield metrics
    finally:
        port.close()


@contextmanager
def _ended_by_signal() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set while the block runs. A second signal has its previous effect."""
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
        for handled, handler in before.items():
            signal.signal(handled, handler)
