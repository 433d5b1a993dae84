"""A table whose writers one coordinator serves, over a store that survives it, with a manual clock."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.incoming_rows import incoming_rows
from penstock.engine.write.planned_write import WriteOptions, WriteRows, open_write
from penstock.engine.write.results import WriteResult
from penstock.engine.write.service.owners import new_owner
from penstock.engine.write.service.remote_transaction import WriteServer
from penstock.engine.write.service.served_timeline import ServedTimeline
from penstock.engine.write.write import _ArrowRows
from penstock.enumerator.coordinator.coordinator import Coordinator, durable_coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.store.journal import Journal
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.enumerator.writes.transactions import WriteTransactions
from penstock.proto.model.writes import WriteCommit, WriteSpec
from penstock.proto.retry import RetryPolicy
from penstock.table.timeline.commits import WriteStat
from penstock.writer.index.slices import GroupWrite
from penstock.writer.rows.chunks import batches_of
from penstock.writer.rows.write_schema import WriteSchema
from penstock.writer.transaction.transaction import Transaction

SCHEMA = pa.schema([("id", pa.string()), ("seq", pa.int64()), ("city", pa.string())])


def rows(prefix: str, city: str, seq: int = 1, count: int = 3) -> pa.Table:
    """Rows of one partition."""
    return pa.table(
        {"id": [f"{prefix}{number}" for number in range(count)], "seq": [seq] * count, "city": [city] * count},
        schema=SCHEMA,
    )


def create(path: pathlib.Path, kind: str = "merge_on_read", **options: Any) -> None:
    """An empty table."""
    chosen = {"buckets": 1, **options} if options.get("index", "bucket") == "bucket" else options
    create_table(str(path), SCHEMA, record_key="id", partition_by="city", ordering="seq", table_type=kind, **chosen)


def ids(path: pathlib.Path) -> list[tuple[str, int]]:
    """The rows that readers see."""
    table = penstock.read(str(path)).read_all()
    return sorted(zip(table["id"].to_pylist(), table["seq"].to_pylist(), strict=True))


def data_files(path: pathlib.Path) -> list[str]:
    """The data files, and those of a partition's metadata."""
    return sorted(
        str(each.relative_to(path)) for each in path.rglob("*") if each.is_file() and ".hoodie/" not in str(each)
    )


class Killed(BaseException):
    """The server's process ended."""


class KilledTimeline(ServedTimeline):
    """A timeline whose server is killed around the completion of an instant."""

    at = ""

    def complete(self, spec: WriteSpec, begun: Any, commit: WriteCommit) -> Any:
        if self.at == "before":
            raise Killed
        completion = super().complete(spec, begun, commit)
        if self.at == "after":
            raise Killed
        return completion


class OneTable:
    """The tables of a server: one."""

    def __init__(self, path: pathlib.Path) -> None:
        self.base_path = str(path)

    def describe_table(self, table: str) -> OneTable:
        """The description of the table."""
        assert table == "t"
        return self


@dataclass
class Coordinated:
    """The coordinator of the table at `path`, with its state in `folder`."""

    path: pathlib.Path
    folder: pathlib.Path
    now_ms: int = 1_000
    timelines: Callable[[str], Any] = ServedTimeline
    ends: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A process begins."""
        store = open_sqlite(str(self.folder))
        journal = Journal(store)
        self.ends = [journal.close, store.close]
        self.coordinator: Coordinator = durable_coordinator(
            store, journal, clock_ms=lambda: self.now_ms, settings=CoordinatorSettings()
        )
        self.writes = WriteTransactions(
            self.coordinator, lambda table: str(self.path), self.timelines, lambda: self.now_ms
        )
        self.writes.recover()

    def stop(self) -> None:
        """The process ends."""
        for end in self.ends:
            end()

    def restart(self) -> None:
        """Another process goes on."""
        self.stop()
        self.start()

    def pass_ms(self, after_ms: int) -> None:
        """Time passes, and the threads of the server run."""
        for _ in range(after_ms // 5_000):
            self.now_ms += 5_000
            self.coordinator.tick()
        self.writes.beat()
        self.writes.tick()

    def server(self, owner: str = "", epoch: int = 1) -> WriteServer:
        """How a writer reaches it."""
        tables: Any = OneTable(self.path)
        return WriteServer(
            address="test",
            service=self.writes,
            tables=tables,
            owner=owner or new_owner(),
            epoch=epoch,
            retry=RetryPolicy(attempts=1),
        )

    def write(
        self,
        data: pa.Table,
        operation: str = "upsert",
        *,
        owner: str = "",
        epoch: int = 1,
        before: Callable[[], object] = lambda: None,
        after: Callable[[], object] = lambda: None,
    ) -> WriteResult:
        """Writes; `before` is called once the write has begun, `after` once its files are written."""
        return write_through(self.server(owner, epoch), "t", data, operation, before, after)


def write_through(
    server: WriteServer | None,
    name: str,
    data: pa.Table,
    operation: str = "upsert",
    before: Callable[[], object] = lambda: None,
    after: Callable[[], object] = lambda: None,
) -> WriteResult:
    """Writes through a server, and calls between its steps."""
    planned = open_write(name, WriteOptions(operation=operation, server=server))
    with incoming_rows(planned.preparation, planned.assigner, planned.early, batches_of(data)) as incoming:
        return planned.run(_Interrupted(_ArrowRows(planned, incoming), before, after))


@dataclass(frozen=True)
class _Interrupted:
    """Rows between whose steps others write."""

    rows: WriteRows
    before: Callable[[], object]
    after: Callable[[], object]

    @property
    def is_empty(self) -> bool:
        return self.rows.is_empty

    @property
    def num_rows(self) -> int:
        return self.rows.num_rows

    @property
    def partitions(self) -> Sequence[str]:
        return self.rows.partitions

    def schema(self, current: CurrentTable) -> WriteSchema:
        return self.rows.schema(current)

    def write_groups(
        self, begun: Transaction, current: CurrentTable, schema: WriteSchema
    ) -> Iterator[tuple[GroupWrite, WriteStat | None]]:
        self.before()
        yield from self.rows.write_groups(begun, current, schema)
        self.after()


@contextmanager
def coordinated(tmp_path: pathlib.Path, kind: str = "merge_on_read", **options: Any) -> Iterator[Coordinated]:
    """A table and its coordinator."""
    create(tmp_path / "t", kind, **options)
    server = Coordinated(tmp_path / "t", tmp_path / "state")
    try:
        yield server
    finally:
        server.stop()
