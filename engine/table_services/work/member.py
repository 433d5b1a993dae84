"""`penstock.work`: a member of a worker group, which carries out the table services that a server hands out."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from penstock.engine.table_services.work.carry_out import carry_out
from penstock.engine.write.service.owners import new_owner
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import ConfigurationError, Fenced, PenstockError, StorageError, code_and_text
from penstock.proto.model.access import ServerAccess
from penstock.proto.model.service_splits import Service, ServiceOutcome, ServiceRequest, ServiceSplit
from penstock.proto.options.registry import EntryPoint, parse_options
from penstock.proto.retry import Retry, RetryPolicy

RETRY: Final = RetryPolicy(timeout_ms=120_000)
"""How long a member that ends when nothing is left waits for a server that is away."""
AWAY_S: Final = 5.0
"""How long another member waits before it asks a server that is away again."""

log = logging.getLogger("penstock.work")


@dataclass(slots=True)
class WorkResult:
    """What a member did."""

    done: int = 0
    """Splits that it carried out."""
    failed: int = 0
    """Splits that failed. The server hands them out again after a pause."""


def work(
    server: str,
    *,
    table: str = "",
    services: Collection[str] = (),
    server_options: Mapping[str, str] | None = None,
    until_idle: bool = False,
    member: str | None = None,
    stopped: threading.Event | None = None,
) -> WorkResult:
    """Carries out the table services that a server hands out: compactions, clusterings, cleans and archivals of its
    tables, by the policies of its configuration (`[tables.NAME.services]`). Any number of members may run.

    * server: HOST:PORT. The folders of its tables must be the same here.
    * table: the name of the only table that is worked on. services: of `compact`, `cluster`, `clean`, `archive`, those
      that are carried out; none: all.
    * server_options: `serverCa`, `serverCert`, `serverKey`, `serverToken`.
    * until_idle: returns when nothing is due and nothing is under way, but splits that failed and are paused; else it
      goes on until `stopped` is set.
    * member: its name, which no other member has; by default one of this call.
    * stopped: when it is set, the member returns after the split that it has.

    A split that fails is reported to the server, which hands it out again after a pause, and logged as a warning; the
    member goes on. If the server is away, the member waits for it; with until_idle for two minutes, then its error is
    raised.
    """
    access = parse_options({**(server_options or {}), "server": server}, entry_point=EntryPoint.CONSUMER).access
    known = {str(service): service for service in Service}
    for name in services:
        if name not in known:
            raise ConfigurationError(f"services: got {str(name)[:40]!r}, expected {', '.join(known)}")
    request = ServiceRequest(
        member=member or new_owner(), table=table, services=tuple(known[name] for name in services)
    )
    worker = Member(
        server=server,
        access=access,
        request=request,
        client=EnumeratorClient(server, access=access),
        until_idle=until_idle,
        stopped=stopped or threading.Event(),
    )
    worker.run()
    return worker.result


CarryOut = Callable[[ServiceSplit, str, str, ServerAccess], str]


@dataclass(slots=True, kw_only=True)
class Member:
    """A member of a worker group. For one thread."""

    server: str
    """HOST:PORT."""
    access: ServerAccess
    """How the server is reached."""
    request: ServiceRequest
    """What it asks for."""
    client: EnumeratorClient
    """The server."""
    until_idle: bool
    """Whether it ends when nothing is due."""
    stopped: threading.Event
    """When it is set, the member ends after the split that it has."""
    carry_out: CarryOut = carry_out
    """Carries a split out."""
    result: WorkResult = field(default_factory=WorkResult)
    """What it did."""

    def run(self) -> None:
        """Works until it is stopped, or until nothing is due."""
        request = replace(self.request, looks_first=self.until_idle)
        while not self.stopped.is_set():
            try:
                answer = self._retry().call(lambda request=request: self.client.request_service_split(request))  # type: ignore[misc]
            except PenstockError as error:
                if self.until_idle or not error.retryable:
                    raise
                log.warning("server %s: %s", self.server, error)
                self.stopped.wait(AWAY_S)
                continue
            request = self.request
            if answer.split is not None:
                self._carry_out(answer.split)
            elif self.until_idle and answer.is_idle:
                return
            else:
                self.stopped.wait(answer.retry_ms / 1000)

    def _carry_out(self, split: ServiceSplit) -> None:
        begin_s = time.monotonic()
        log.info("%s begins", split.id)
        try:
            path = self.client.describe_table(split.id.table).base_path
            with self._renewing(split):
                outcome = ServiceOutcome(text=self.carry_out(split, path, self.server, self.access))
        except Exception as error:
            if not isinstance(error, PenstockError):
                log.exception("%s: unexpected exception", split.id)
            code, text = code_and_text(error)
            outcome = ServiceOutcome(code=code, text=text)
        self._finish(split, outcome)
        if outcome.code:
            self.result.failed += 1
            log.warning("%s failed: %s: %s", split.id, outcome.code, outcome.text)
        else:
            self.result.done += 1
            log.info("%s done in %.1f s: %s", split.id, time.monotonic() - begin_s, outcome.text)

    def _finish(self, split: ServiceSplit, outcome: ServiceOutcome) -> None:
        """Reports the end. If the server is away or has forgotten the split, it finds out by the timeline."""
        try:
            self._retry().call(
                lambda: self.client.finish_service_split(split.id, self.request.member, split.attempt, outcome)
            )
        except (Fenced, StorageError) as error:
            log.info("%s: its end is not reported: %s", split.id, error)

    def _retry(self) -> Retry:
        return Retry(policy=RETRY, wait=self.stopped.wait, stopped=self.stopped.is_set)

    @contextlib.contextmanager
    def _renewing(self, split: ServiceSplit) -> Iterator[None]:
        """Renews the lease three times in its length while the block runs, in a thread. If it ends, the split is handed
        out again; the heartbeat of the instant decides which member completes it."""
        ended = threading.Event()

        def renew() -> None:
            pause_s = split.lease_ms / 3000
            while not ended.wait(pause_s):
                try:
                    lease_ms = self.client.renew_service_split(split.id, self.request.member, split.attempt)
                    pause_s = max(0.05, lease_ms / 3000)
                except PenstockError as error:  # the next renewal may succeed
                    log.info("%s: its lease is not renewed: %s", split.id, error)

        thread = threading.Thread(target=renew, name="renew-service-split", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
