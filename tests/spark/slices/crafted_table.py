"""A small copy-on-write table whose base files a test makes: Parquet files of Spark or of pyarrow."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tests.oracle.slice_writer import table_schema


class CraftedTable:
    """A table of version 6 (timeline layout 1) in a folder. One commit a call of `commit`."""

    def __init__(
        self, path: pathlib.Path, fields: Mapping[str, Any], *, partition_fields: Sequence[str] = (), **more: str
    ) -> None:
        """`fields`: Avro types by column, without the meta columns. `more`: further table properties."""
        self.path = path
        self._fields = dict(fields)
        self._instants = 0
        self._files = 0
        properties = {
            "hoodie.table.name": "crafted",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "6",
            "hoodie.timeline.layout.version": "1",
            "hoodie.table.base.file.format": "PARQUET",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": ",".join(partition_fields),
            "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
            "hoodie.populate.meta.fields": "true",
            "hoodie.archivelog.folder": "archived",
            **{name.replace("__", "."): value for name, value in more.items()},
        }
        (path / ".hoodie").mkdir(parents=True)
        lines = [f"{name}={value}" for name, value in properties.items() if value]
        (path / ".hoodie" / "hoodie.properties").write_text("\n".join(lines) + "\n")

    def evolve(self, fields: Mapping[str, Any]) -> None:
        """The schema of later commits."""
        self._fields = dict(fields)

    def commit(self, *files: tuple[str, DataFrame | pa.Table]) -> list[str]:
        """A commit with one new file group for each (partition, rows). Returns the files' paths in the table."""
        self._instants += 1
        instant = f"202611220000{self._instants:02d}000"
        stats: dict[str, list[dict[str, Any]]] = {}
        paths = []
        for partition, rows in files:
            self._files += 1
            group = f"{self._files:08d}-0000-4000-8000-000000000000-0"
            name = f"{group}_0-0-0_{instant}.parquet"
            path = "/".join(filter(None, (partition, name)))
            target = self.path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            write(rows, target)
            stat = {"fileId": group, "path": path, "prevCommit": "null", "numWrites": 1, "partitionPath": partition}
            stats.setdefault(partition, []).append(stat | {"fileSizeInBytes": target.stat().st_size})
            paths.append(path)
        schema = json.dumps(table_schema(self._fields))
        commit = {"partitionToWriteStats": stats, "extraMetadata": {"schema": schema}, "operationType": "INSERT"}
        timeline = self.path / ".hoodie"
        (timeline / f"{instant}.commit.requested").touch()
        (timeline / f"{instant}.inflight").touch()
        (timeline / f"{instant}.commit").write_text(json.dumps(commit))
        return paths


def write(rows: DataFrame | pa.Table, target: pathlib.Path) -> None:
    """One Parquet file."""
    if isinstance(rows, pa.Table):
        pq.write_table(rows, target)
        return
    folder = target.with_name(f".{target.name}.tmp")
    rows.coalesce(1).write.parquet(str(folder))
    (part,) = folder.glob("part-*.parquet")
    part.rename(target)
    shutil.rmtree(folder)


def native_files(frame: DataFrame) -> list[str]:
    """The names of the files that Spark's own Parquet reader reads."""
    return sorted(pathlib.PurePosixPath(uri).name for uri in frame.inputFiles())
