"""Small tables for the tests of services, and what readers see of them."""

from __future__ import annotations

import pathlib
from datetime import UTC, datetime, timedelta

import pyarrow as pa

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.table.hudi_table import HudiTable, open_table

SCHEMA = pa.schema([("id", pa.string()), ("seq", pa.int64()), ("city", pa.string())])
CITIES = ("oslo", "riga")


class Lake:
    """A table in which each upsert replaces one row of each city."""

    def __init__(
        self,
        folder: pathlib.Path,
        version: int = 9,
        kind: str = "copy_on_write",
        name: str = "trips",
        change_logging: str | None = None,
        metadata_table: bool = False,
    ) -> None:
        self.path = folder / name
        self.states: dict[str, list[tuple[str, int]]] = {}
        self.writes = 0
        create_table(
            str(self.path),
            SCHEMA,
            record_key="id",
            partition_by="city",
            ordering="seq",
            table_type=kind,
            table_version=version,
            buckets=1,
            change_logging=change_logging,
            metadata_table=metadata_table,
        )

    def write(self, times: int = 1, cities: tuple[str, ...] = CITIES, operation: str = "upsert") -> str:
        """Writes, and remembers the rows; the last instant."""
        for _ in range(times):
            self.writes += 1
            rows = [{"id": "a", "seq": self.writes, "city": city} for city in cities]
            instant = write(str(self.path), pa.Table.from_pylist(rows, SCHEMA), operation).instant
            self.states[instant] = rows_of(self.path)
        return instant

    @property
    def table(self) -> HudiTable:
        return open_table(str(self.path))

    @property
    def instants(self) -> list[str]:
        """The instants of the writes, ascending."""
        return sorted(self.states)

    def files(self, city: str = "oslo") -> list[str]:
        """The data files of a partition."""
        return sorted(file.file_name for file in self.table.list_partition(city))

    def timeline_files(self) -> list[str]:
        folder = self.path / self.table.properties.timeline_folder
        return sorted(path.name for path in folder.iterdir() if path.is_file())

    def check_states(self, first: str) -> None:
        """The rows now, and as of each instant from `first` on."""
        assert rows_of(self.path) == self.states[self.instants[-1]]
        for instant in self.instants:
            if instant >= first:
                assert rows_of(self.path, as_of=instant) == self.states[instant], instant


def rows_of(path: pathlib.Path, **options: str) -> list[tuple[str, int]]:
    """(city, seq) of each row."""
    rows = penstock.read(str(path), **options).read_all().to_pylist()
    return sorted((row["city"], row["seq"]) for row in rows)


def hours_ago(hours: float) -> str:
    """An instant's time."""
    return (datetime.now(UTC) - timedelta(hours=hours)).strftime("%Y%m%d%H%M%S%f")[:17]
