"""A write whose instant a server begins and completes: the files, with their markers, are written here."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar, cast

from penstock.engine.connect import enumerator_for
from penstock.engine.write.service.owners import new_owner
from penstock.engine.write.service.served_timeline import compressed
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import ConfigurationError, PenstockError, StorageError, TableError, WriteConflict
from penstock.proto.model.access import ServerAccess
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import (
    MAX_GROUPS_A_LEASE,
    NO_PROGRESS,
    BegunWrite,
    TouchedGroups,
    WriteCommit,
    WriteId,
    WriteProgress,
    WriteSpec,
)
from penstock.proto.options.registry import EntryPoint, parse_options
from penstock.proto.retry import Retry, RetryPolicy
from penstock.proto.write_service import WriteService
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.commit_encoder import encode_commit
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.instants import Action
from penstock.writer.transaction.conflicts import StartOfWrite
from penstock.writer.transaction.kept_settings import changed_setting
from penstock.writer.transaction.markers import attempt_folder, markers_of
from penstock.writer.transaction.transaction import Transaction, WriteEnvironment, metadata_action

if TYPE_CHECKING:
    from penstock.proto.client.client import EnumeratorClient

RETRY: Final = RetryPolicy(timeout_ms=120_000)
"""How long a writer waits for a server that is away."""
_T = TypeVar("_T")

log = logging.getLogger("penstock.writer")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteServer:
    """The server that owns the timeline of the table."""

    address: str
    """HOST:PORT, for texts."""
    service: WriteService
    """Its write transactions."""
    tables: Enumerator
    """Its tables."""
    owner: str = field(default_factory=new_owner)
    """The name of the writer; by default one of this write alone."""
    epoch: int = 1
    """Its epoch: a later one of the same owner fences this one."""
    retry: RetryPolicy = RETRY
    """How long calls are repeated while the server is away."""

    def path_of(self, table: str) -> str:
        """The path of a table that it serves."""
        return self.calls(lambda: self.tables.describe_table(table)).base_path

    def calls(self, call: Callable[[], _T]) -> _T:
        """Calls, again and again while the server is away. A conflict is raised at once."""
        conflicts: list[WriteConflict] = []

        def once() -> _T | None:
            try:
                return call()
            except WriteConflict as error:
                conflicts.append(error)
                return None

        answer = Retry(policy=self.retry).call(once)
        if conflicts:
            raise conflicts[0]
        return cast("_T", answer)


def write_server(server: str | None, options: Mapping[str, str] | None) -> WriteServer | None:
    """The server at HOST:PORT, reached with the options `serverCa`, `serverCert`, `serverKey`, `serverToken`; None
    without one. ConfigurationError for other options, and for options without a server."""
    if server is None:
        if options:
            raise ConfigurationError(f"server_options: got {', '.join(sorted(options))[:200]} without a server")
        return None
    client = server_client(server, options or {})
    return WriteServer(address=server, service=client, tables=enumerator_for(server, _access(server, options or {})))


def server_client(server: str, options: Mapping[str, str]) -> EnumeratorClient:
    """A client of the server. ConfigurationError as `write_server`."""
    from penstock.proto.client.client import EnumeratorClient

    return EnumeratorClient(server, access=_access(server, options))


def _access(server: str, options: Mapping[str, str]) -> ServerAccess:
    return parse_options({**options, "server": server}, entry_point=EntryPoint.CONSUMER, environment={}).access


@dataclass(slots=True, kw_only=True)
class RemoteTransaction(Transaction):
    """A write that a server has begun. For one thread."""

    server: WriteServer
    """The server."""
    id: WriteId
    """The write there."""
    by_bucket: bool
    """Whether the table has a bucket index."""
    _held: TouchedGroups = field(default_factory=TouchedGroups)

    def lease(self, touched: TouchedGroups) -> None:
        """Takes the leases that the write does not hold. WriteConflict if another write holds one of them, or changed
        it since this write began; nothing of these groups is written then."""
        added = touched.without(self._held)
        for part in _parts(added):
            self.server.calls(lambda part=part: self.server.service.lease_groups(self.id, part))  # type: ignore[misc]
            self._held = self._held.united(part)

    def files_begun(self) -> int:
        """How many data files were begun here, or in tasks of Spark, whose markers show them; 0 if storage fails."""
        if self.num_files:
            return self.num_files
        try:
            return len(markers_of(self.storage, self.requested_time))
        except (PenstockError, OSError):
            return 0

    def complete(
        self, metadata: CommitMetadata, touched: TouchedGroups, *, by_bucket: bool, writes_base_files: bool
    ) -> InstantTime:
        """Completes the write at the server; see `Transaction.complete`. A server that is away is waited for: if it
        stays away, a StorageError says that the commit may be complete or not."""
        self.lease(touched)
        check_unchanged(self.table)
        self.before_completion(self.table.unpinned())  # the lock is the server's
        layout = self.table.properties.layout
        content = encode_commit(metadata, metadata_action(self.action), layout)
        commit = WriteCommit(metadata=compressed(content), touched=touched, writes_base_files=writes_base_files)
        try:
            completion = self.server.calls(lambda: self.server.service.commit_write(self.id, commit))
        except WriteConflict:
            raise
        except PenstockError as error:  # a server that restarted without its state may not know the write
            done = self.table.unpinned().refreshed().timeline().completed_write(self.requested_time)
            if done is None and not isinstance(error, StorageError):
                raise
            if done is None:
                raise StorageError(
                    f"table {_name(self.table)}: the commit of instant {self.requested_time} at server "
                    f"{self.server.address} has no answer: it may be complete, or will be, or not: look at the "
                    f"timeline before you write again: {error}"
                ) from error
            completion = done.completion_time or done.requested_time
        self.is_complete = True
        return completion


@contextlib.contextmanager
def remote_transaction(
    server: WriteServer,
    name: str,
    table: HudiTable,
    storage: WritableStorage,
    environment: WriteEnvironment,
    spec: WriteSpec,
) -> Iterator[RemoteTransaction]:
    """A write of the table, which the server serves as `name`, while the block runs; its lease is renewed meanwhile. If
    the block ends with an error, the server rolls the write back; if it does not answer, it does so when the lease
    ends."""
    this = WriteId(name, server.owner, server.epoch)
    request_id = uuid.uuid4().hex
    begun = server.calls(lambda: server.service.begin_write(this, request_id, spec))
    transaction = attached(server, this, table, storage, environment, spec, begun.instant, start_of(begun))
    with _aborted_on_error(transaction), renewing(server, this, begun.lease_ms, transaction.files_begun):
        check_unchanged(table)
        yield transaction


def attached(
    server: WriteServer,
    write: WriteId,
    table: HudiTable,
    storage: WritableStorage,
    environment: WriteEnvironment,
    spec: WriteSpec,
    instant: InstantTime,
    start: StartOfWrite,
) -> RemoteTransaction:
    """The transaction of a write that the server has begun."""
    return RemoteTransaction(
        table=table,
        storage=storage,
        environment=environment,
        requested_time=instant,
        action=Action(spec.action),
        start=start,
        keeps_metadata=spec.keeps_metadata,
        server=server,
        id=write,
        by_bucket=spec.by_bucket,
    )


def start_of(begun: BegunWrite) -> StartOfWrite:
    """The timeline when the write began."""
    return StartOfWrite(begun.newest_completed, frozenset(begun.pending))


@contextlib.contextmanager
def carried_on_at_server(transaction: RemoteTransaction) -> Iterator[None]:
    """The end of a write that other processes have carried out: its lease is renewed while the block runs, and an error
    rolls it back. Fenced if it has ended. Tasks can create no more files."""
    server, this = transaction.server, transaction.id
    with _aborted_on_error(transaction):
        lease_ms = server.calls(lambda: server.service.renew_write(this, NO_PROGRESS))
        transaction.storage.close_folder(attempt_folder(transaction.requested_time))
        with renewing(server, this, lease_ms, transaction.files_begun):
            yield


@contextlib.contextmanager
def _aborted_on_error(transaction: RemoteTransaction) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if not transaction.is_complete:
            _abort(transaction)
        raise


def _abort(transaction: RemoteTransaction) -> None:
    try:
        transaction.restore_markers()
        transaction.server.service.abort_write(transaction.id)
    except PenstockError as error:
        log.warning(
            "table %s: instant %s was not aborted: %s", _name(transaction.table), transaction.requested_time, error
        )


@contextlib.contextmanager
def renewing(server: WriteServer, write: WriteId, lease_ms: int, num_files: Callable[[], int]) -> Iterator[None]:
    """Renews the lease of the write three times in its length while the block runs, in a thread."""
    stopped = threading.Event()

    def renew() -> None:
        pause_s = lease_ms / 3000
        while not stopped.wait(pause_s):
            try:
                begin_s = time.monotonic()
                length_ms = server.service.renew_write(write, WriteProgress(num_files()))
                pause_s = max(0.05, length_ms / 3000 - (time.monotonic() - begin_s))
            except PenstockError as error:  # the next renewal may succeed; `complete` gets the error of an ended lease
                log.info("%s: its lease is not renewed: %s", write, error)

    thread = threading.Thread(target=renew, name=f"renew-{write.owner}-{write.epoch}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def check_unchanged(table: HudiTable) -> None:
    """TableError if the table's version, or a setting of its writers, is another one than when it was opened."""
    now = table.refreshed().properties
    mine = table.properties
    name = changed_setting(mine.raw, now.raw)
    if (mine.version, mine.layout) != (now.version, now.layout) or name:
        what = f"property {name}" if name else f"version {mine.version}, now {now.version}"
        raise TableError(
            f"table {_name(table)}: its {what} changed during this write: nothing was written; write again"
        )


def _name(table: HudiTable) -> str:
    return redacted_uri(table.base_path)


def _parts(touched: TouchedGroups) -> Iterator[TouchedGroups]:
    """What is leased, in requests that a server accepts."""
    if touched.size <= MAX_GROUPS_A_LEASE:
        if touched.size:
            yield touched
        return
    groups, partitions = sorted(touched.groups), sorted(touched.inserted_into)
    for start in range(0, len(groups), MAX_GROUPS_A_LEASE):
        yield TouchedGroups(groups=frozenset(groups[start : start + MAX_GROUPS_A_LEASE]))
    for start in range(0, len(partitions), MAX_GROUPS_A_LEASE):
        part = frozenset(partitions[start : start + MAX_GROUPS_A_LEASE])
        yield TouchedGroups(inserted_into=part, keys_of_table=touched.keys_of_table)
