"""Transactions of a small table: begun, with files, and completed; what they leave in its folders."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.proto.errors import StorageError
from penstock.proto.model.writes import TouchedGroups
from penstock.table.files.markers import IoType
from penstock.table.files.names import base_file_name
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Action
from penstock.writer.transaction.transaction import Transaction, WriteEnvironment, transaction
from tests.unit.engine.write.recorded_storage import Lake

SECOND = datetime.timedelta(seconds=1)


@dataclass
class Clock:
    """A wall clock that each test moves, and whether the table was locked at each look at it."""

    lake: Lake
    now: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    locked: list[bool] = field(default_factory=list)
    on_look: Callable[[], None] = lambda: None

    def __call__(self) -> datetime.datetime:
        self.locked.append((self.lake.path / ".hoodie/lock").exists())
        self.on_look()
        return self.now

    @property
    def text(self) -> str:
        return self.now.strftime("%Y%m%d%H%M%S%f")[:17]


def begun(lake: Lake, environment: WriteEnvironment) -> contextlib.AbstractContextManager[Transaction]:
    return transaction(lake.table(), lake.storage, environment, Action.DELTA_COMMIT)


def file_name(one: Transaction, group: str = "g1") -> str:
    return base_file_name(f"{group}-0", "1-0-0", one.requested_time)


def write_file(one: Transaction, group: str = "g1", partition: str = "oslo") -> None:
    with one.data_file(partition, file_name(one, group), IoType.CREATE) as file:
        file.write(b"rows")


def stat_of(one: Transaction, group: str, partition: str = "oslo") -> WriteStat:
    return WriteStat(
        partition=partition,
        file_id=group,
        path=f"{partition}/{file_name(one, group)}",
        num_writes=1,
        num_deletes=0,
        num_inserts=1,
        num_update_writes=0,
        file_size_bytes=4,
        base_file="",
        log_files=(),
        prev_commit="1",
    )


def metadata_of(stat: WriteStat, instant: str = "") -> CommitMetadata:
    return CommitMetadata(
        requested_time=instant,
        operation="UPSERT",
        compacted=False,
        schema_json="",
        extra={},
        stats=(stat,),
        replaced=(),
    )


def complete(one: Transaction, group: str = "g1", partition: str = "oslo") -> str:
    metadata = metadata_of(stat_of(one, group, partition), one.requested_time)
    touched = TouchedGroups(groups=frozenset({(partition, group)}))
    return one.complete(metadata, touched, by_bucket=False, writes_base_files=False)


def instants(lake: Lake) -> list[str]:
    """The files of the active timeline."""
    return sorted(path.name for path in lake.timeline_folder.iterdir() if path.is_file() and path.name[0].isdigit())


def heartbeats(lake: Lake) -> list[str]:
    folder = lake.path / ".hoodie/.heartbeat"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def fails(method: str, pattern: str) -> Callable[[str, str], None]:
    """A disk that fails these calls."""

    def before(called: str, path: str) -> None:
        if called == method and re.search(pattern, path):
            raise StorageError(f"no space for {path}")

    return before
