"""A lake of minimal Hudi tables for load: real timelines with real commit metadata, over data files without content.

Planning reads such tables as any other; rows cannot be read. The instants have the times at which they are written, so
that the age of a split is known from its file.
"""

from __future__ import annotations

import datetime as dt
import json
import pathlib
from dataclasses import dataclass, field
from typing import Final

SCHEMA: Final = '{"type":"record","name":"r","fields":[{"name":"id","type":"string"},{"name":"v","type":"long"}]}'
PROPERTIES: Final = (
    "hoodie.table.name={name}\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=9\n"
    "hoodie.timeline.layout.version=2\nhoodie.timeline.path=timeline\nhoodie.table.recordkey.fields=id\n"
    "hoodie.table.timeline.timezone=UTC\nhoodie.record.merge.mode=COMMIT_TIME_ORDERING\n"
)


def instant_at(time_ms: int) -> str:
    """The instant of a time in milliseconds since 1970."""
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC).strftime("%Y%m%d%H%M%S%f")[:17]


def time_of(instant: str) -> int:
    """The time of an instant, in milliseconds since 1970."""
    moment = dt.datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=dt.UTC)
    return round(moment.timestamp()) * 1000 + int(instant[14:17])


@dataclass(slots=True)
class SimulatedTable:
    """A table of one folder. One thread."""

    path: pathlib.Path
    """Its base path."""
    newest_ms: int = 0
    """Time of the newest instant: instants of a table differ."""

    def create(self) -> None:
        """Writes the folders and the properties."""
        (self.path / ".hoodie" / "timeline").mkdir(parents=True)
        (self.path / ".hoodie" / "hoodie.properties").write_text(PROPERTIES.format(name=self.path.name))
        (self.path / ".hoodie_partition_metadata").touch()

    def commit(self, time_ms: int) -> str:
        """Commits one new file, at this time or just after the newest instant. Returns the instant."""
        self.newest_ms = max(time_ms, self.newest_ms + 2)
        requested, completion = instant_at(self.newest_ms), instant_at(self.newest_ms + 1)
        group = f"{requested:0>32}-0"
        base = f"{group}_0-1-1_{requested}.parquet"
        timeline = self.path / ".hoodie" / "timeline"
        (self.path / base).touch()
        (timeline / f"{requested}.commit.requested").touch()
        (timeline / f"{requested}.commit.inflight").touch()
        stat = {"fileId": group, "path": base, "prevCommit": "null", "numWrites": 10, "numInserts": 10}
        commit = {
            "partitionToWriteStats": {"": [{**stat, "fileSizeInBytes": 1000}]},
            "operationType": "INSERT",
            "extraMetadata": {"schema": SCHEMA},
        }
        partial = timeline.parent / f"{requested}.partial"
        partial.write_text(json.dumps(commit))
        partial.rename(timeline / f"{requested}_{completion}.commit")
        return requested


@dataclass(frozen=True, slots=True)
class SimulatedLake:
    """Tables `t0000`, `t0001`, … below a folder."""

    folder: pathlib.Path
    """The folder."""
    tables: dict[str, SimulatedTable] = field(default_factory=dict)
    """The tables by name."""

    @classmethod
    def create(cls, folder: pathlib.Path, tables: int, commits: int, newest_ms: int) -> SimulatedLake:
        """A lake whose tables have `commits` commits each, a minute apart, the newest at `newest_ms`."""
        lake = cls(folder)
        for number in range(tables):
            table = SimulatedTable(folder / f"t{number:04d}")
            table.create()
            for before in reversed(range(commits)):
                table.commit(newest_ms - before * 60_000)
            lake.tables[table.path.name] = table
        return lake

    @property
    def paths(self) -> dict[str, str]:
        """The path of each table by name."""
        return {name: str(table.path) for name, table in self.tables.items()}

    def newest_write_ms(self) -> int:
        """When a timeline was last written, by the clock of the file system, milliseconds since 1970."""
        folders = (table.path / ".hoodie" / "timeline" for table in self.tables.values())
        return max(folder.stat().st_mtime_ns for folder in folders) // 1_000_000
