"""Carries out steps on a table, by Hudi or by Penstock."""

from __future__ import annotations

import io
import pathlib
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import penstock
from penstock.engine.table_services.archive import archive
from penstock.engine.table_services.clean import clean
from penstock.engine.table_services.clustering import cluster
from penstock.engine.table_services.compaction import compact
from penstock.engine.table_services.restore import restore
from penstock.engine.table_services.savepoints import delete_savepoint, savepoint
from penstock.engine.write.create import create_table
from penstock.engine.write.rollback import rollback
from penstock.engine.write.write import write
from penstock.writer.index.new_groups import FileSizes
from tests.interop.hudi_process import NEWEST
from tests.interop.mixed.shapes import Row, Shape, schema_of, sql_columns, values_of
from tests.unit.engine.write.killed_storage import Killed, KilledStorage, as_other_process

WRITES = ("commit", "deltacommit", "replacecommit")
NAME = "mixed"
METADATA_COMPACTED_AFTER = 10
"""Hudi's `hoodie.metadata.compact.max.delta.commits`."""
_PAYLOAD = "org.apache.hudi.common.model."
SERVICES = {
    "compaction": {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"},
    "clean": {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.async": "false",
        "hoodie.clean.commits.retained": "1",
        "hoodie.cleaner.commits.retained": "1",
    },
    "archive": {
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.commits.archival.batch": "1",
    },
}
BLOCKED = "blocked"
"""A partition that no task can create, because there is a file of its name."""


def hudis_options(shape: Shape) -> dict[str, str]:
    """The options of every write and procedure of Hudi."""
    options = {
        "hoodie.table.name": NAME,
        "hoodie.write.table.version": str(shape.version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if shape.merge_on_read else "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": ",".join(shape.keys),
        "hoodie.datasource.write.partitionpath.field": "city" if shape.partitioned else "",
        "hoodie.datasource.write.hive_style_partitioning": str(shape.hive_style).lower(),
        "hoodie.metadata.enable": str(shape.metadata).lower(),
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.markers.type": "DIRECT",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        **{f"hoodie.{step}.shuffle.parallelism": "1" for step in ("insert", "upsert", "delete", "bulkinsert")},
        **{f"hoodie.{index}.index.parallelism": "1" for index in ("simple", "global.simple", "bloom")},
    }
    if shape.ordering:
        options["hoodie.datasource.write.precombine.field"] = "seq"
    if shape.version == 6:
        payload = "DefaultHoodieRecordPayload" if shape.ordering else "OverwriteWithLatestAvroPayload"
        options["hoodie.datasource.write.payload.class"] = _PAYLOAD + payload
    else:
        mode = "EVENT_TIME_ORDERING" if shape.ordering else "COMMIT_TIME_ORDERING"
        options |= {"hoodie.record.merge.mode": mode, "hoodie.write.record.merge.mode": mode}
    if not shape.small_files:
        options["hoodie.parquet.small.file.limit"] = "0"
    if shape.buckets:
        options |= {
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": "SIMPLE",
            "hoodie.bucket.index.num.buckets": str(shape.buckets),
        }
    else:
        options["hoodie.index.type"] = shape.index.upper()
    return options


def table_of(shape: Shape, rows: tuple[Row, ...]) -> pa.Table:
    """The rows as Arrow."""
    return pa.Table.from_pylist(
        [values_of(shape, row) for row in rows], schema_of(shape, max(row.level for row in rows))
    )


def content(file: pathlib.Path) -> Any:
    """The record of a file of Avro's object container format."""
    return next(fastavro.reader(io.BytesIO(file.read_bytes())))


class Writers:
    """Both writers of one table."""

    def __init__(self, hudi: Any, path: pathlib.Path, shape: Shape, release: str = NEWEST) -> None:
        self.hudi, self.path, self.shape = hudi, path, shape
        self.options = hudis_options(shape)
        if release != NEWEST and not shape.ordering:  # 0.15.0 needs a column, and rows of a key have the same one
            self.options["hoodie.datasource.write.precombine.field"] = shape.keys[0]

    def create(self) -> None:
        """Penstock creates the table, if it is the one to do so."""
        if not self.shape.by_penstock:
            return
        create_table(
            str(self.path),
            schema_of(self.shape, 0),
            record_key=self.shape.keys,
            partition_by="city" if self.shape.partitioned else (),
            ordering="seq" if self.shape.ordering else (),
            table_type="merge_on_read" if self.shape.merge_on_read else "copy_on_write",
            table_version=self.shape.version,
            index=self.shape.index,
            buckets=self.shape.buckets or None,
            name=NAME,
            hive_style_partitioning=self.shape.hive_style,
            metadata_table=self.shape.metadata,
        )

    def instants(self) -> list[tuple[str, str | None, str]]:
        """The completed instants as (requested, completion, action)."""
        return list(self.hudi.instants(self.path)) if self.path.exists() else []

    def by_penstock(self, operation: str, rows: tuple[Row, ...], *, sole_writer: bool = True) -> str:
        """A write; its instant."""
        return write(
            str(self.path),
            table_of(self.shape, rows),
            operation,
            index=self.shape.index,
            buckets=self.shape.buckets or None,
            timeline_timezone="UTC",
            sole_writer=sole_writer,
            sizes=None if self.shape.small_files else FileSizes(small_file_bytes=0),
        ).instant

    def services_by_penstock(self, services: tuple[str, ...]) -> None:
        """What Penstock does after its write, as Hudi does by `SERVICES`."""
        if "clean" in services:
            clean(str(self.path), commits=1, timeline_timezone="UTC")
        if "archive" in services:
            archive(str(self.path), keep_min=3, keep_max=4, timeline_timezone="UTC")

    def by_hudi(
        self,
        operation: str,
        rows: tuple[Row, ...],
        services: tuple[str, ...] = (),
        gate: pathlib.Path | None = None,
        **more: str,
    ) -> list[Any]:
        """A write; the instants that completed meanwhile. Its rows are held back until there is a file `gate`."""
        options = self.options | {"hoodie.datasource.write.operation": operation} | more
        for service in services:
            options |= SERVICES[service]
        columns = sql_columns(self.shape, max(row.level for row in rows))
        values = [[row.key, row.ordering, row.value, row.city, row.deleted] for row in rows]
        return list(self.hudi.write(self.path, columns, values, options, gate))

    def killed(self, operation: str, rows: tuple[Row, ...], at: int) -> str:
        """Penstock's write, killed at the call `at` of storage; its instant if it completed before, else ''."""
        known = {item[0] for item in self.instants()}
        storage = KilledStorage(self.path, at, after=False)
        with pytest.MonkeyPatch.context() as patch:
            as_other_process(patch)
            patch.setattr("penstock.engine.write.planned_write.open_writable", lambda path: storage)
            try:
                return self.by_penstock(operation, rows)
            except Killed:
                pass
        return max((item[0] for item in self.instants() if item[0] not in known and item[2] in WRITES), default="")

    def failed(self, operation: str, rows: tuple[Row, ...]) -> None:
        """Hudi's write that fails when files are written: in a task, as there is a file in place of a partition, or, in
        a table without partitions, before it completes, as its validator does not exist."""
        if not self.shape.partitioned:
            self._refused(operation, rows, **{"hoodie.precommit.validators": "no.such.Validator"})
            return
        obstacle = self.path / (f"city={BLOCKED}" if self.shape.hive_style else BLOCKED)
        obstacle.write_text("")
        try:
            self._refused(operation, (*rows, Row(10**6, 1, 1, BLOCKED, level=rows[0].level)))
        finally:
            obstacle.unlink()

    def _refused(self, operation: str, rows: tuple[Row, ...], **more: str) -> None:
        with pytest.raises(RuntimeError):
            self.by_hudi(operation, rows, **more)

    def compacted(self, step: str) -> str:
        """Penstock's compaction; its instant, '' if there was nothing to compact."""
        results = compact(
            str(self.path),
            schedule_only=step == "schedule",
            run_only=step == "execute",
            timeline_timezone="UTC",
            sole_writer=True,
        )
        return results[-1].instant if results else ""

    def cluster(self, part: str, sort_by: str, *, by_penstock: bool) -> bool:
        """A part of a clustering, `schedule` or `execute`; whether there was something to do."""
        if not by_penstock:
            call = f"CALL run_clustering(path => '{self.path}', op => '{part}', order => '{sort_by}')"
            self._call(self.options, call)
            return True
        sorting = [sort_by] if part == "schedule" else []
        return bool(
            cluster(
                str(self.path),
                sort_by=sorting,
                index=self.shape.index,
                schedule_only=part == "schedule",
                run_only=part == "execute",
                timeline_timezone="UTC",
                sole_writer=True,
            )
        )

    def compact(self, step: str) -> str:
        """Hudi's compaction; its instant."""
        options = self.options | {"hoodie.compact.inline.max.delta.commits": "1"}
        self._call(options, f"CALL run_compaction(op => '{step}', path => '{self.path}')")
        return max((path.name.partition(".")[0] for path in self.timeline.glob("*.compaction.requested")), default="")

    def can_be_rolled_back(self, instant: str) -> bool:
        """Whether Hudi rolls the newest write back: not if a compaction of the metadata table follows it, or is due,
        because the rollback begins with it (`HoodieBackedTableMetadataWriter.validateRollback`)."""
        timeline = self.path / ".hoodie" / "metadata" / ".hoodie"
        compacted = max((path.name for path in timeline.glob("**/*.commit")), default="")
        since = [path for path in timeline.glob("**/*.deltacommit") if path.name > compacted]
        return compacted < instant and len(since) < METADATA_COMPACTED_AFTER

    def hudi_can_restore(self, instant: str) -> bool:
        """Whether Hudi restores to the savepoint: not after a later compaction that completed after a write which was
        requested after it. Hudi's restore then rolls the compaction back before this write, and its own check refuses
        that (`BaseRollbackActionExecutor.validateRollbackCommitSequence`)."""
        writes = [item for item in self.completed("deltacommit") if item[0] > instant]
        requested = {path.name.partition(".")[0] for path in self.timeline.glob("*.compaction.requested")}
        compactions = [item for item in self.completed("commit") if item[0] > instant and item[0] in requested]
        return not any(
            write > compaction and written < compacted
            for compaction, compacted in compactions
            for write, written in writes
        )

    def completed(self, action: str) -> list[tuple[str, int]]:
        """(requested time, completion) of the instants. Version 6 orders them by the times of their files."""
        found = []
        for path in self.timeline.glob(f"*.{action}"):
            requested, _, completion = path.name.partition(".")[0].partition("_")
            found.append((requested, int(completion or path.stat().st_mtime_ns)))
        return found

    @property
    def timeline(self) -> pathlib.Path:
        """The folder of the active timeline."""
        return self.path / ".hoodie" / ("timeline" if self.shape.version == 9 else "")

    def lacks_files_of(self, saved: str) -> bool:
        """Whether files of the savepoint are gone. AssertionError unless Hudi's newest clean removed their partitions:
        it removes the folder of a partition whose file groups were all replaced, with the files of savepoints."""
        (entry,) = map(content, self.timeline.glob(f"{saved}*.savepoint"))
        missing = {
            partition
            for partition, files in entry["partitionMetadata"].items()
            if not all((self.path / partition / name).exists() for name in files["savepointDataFile"])
        }
        newest = max(self.timeline.glob("*.clean"), key=lambda path: path.name)
        cleaned = content(newest)["partitionMetadata"]
        removed = {name for name, files in cleaned.items() if files["isPartitionDeleted"]}
        assert missing <= removed, f"files of savepoint {saved} are gone: {missing}; {newest.name} removed {removed}"
        return bool(missing)

    def roll_back(self, instant: str) -> None:
        """Hudi's rollback of a completed instant."""
        self._call_by_name(f"rollback_to_instant(table => '{NAME}', instant_time => '{instant}')")

    def savepoint(self, instant: str, *, by_penstock: bool) -> None:
        """A savepoint of a completed write."""
        if by_penstock:
            savepoint(str(self.path), instant, timeline_timezone="UTC")
        else:
            self._call_by_name(f"create_savepoint(table => '{NAME}', commit_time => '{instant}')")

    def delete_savepoint(self, instant: str, *, by_penstock: bool) -> None:
        """The end of a savepoint."""
        if by_penstock:
            delete_savepoint(str(self.path), instant, timeline_timezone="UTC")
        else:
            self._call_by_name(f"delete_savepoint(table => '{NAME}', instant_time => '{instant}')")

    def restore(self, instant: str, *, by_penstock: bool) -> None:
        """A restore to the savepoint of an instant.

        Hudi's leaves a clustering that it removes inflight, and Hudi then refuses writes of its file groups. Penstock
        rolls it back, as docs/guides/table-services.md says.
        """
        if by_penstock:
            restore(str(self.path), instant, timeline_timezone="UTC", sole_writer=True)
            return
        self._call_by_name(f"rollback_to_savepoint(table => '{NAME}', instant_time => '{instant}')")
        for name in sorted(path.name for path in self.path.glob(".hoodie/timeline/*.clustering.inflight")):
            left = name.partition(".")[0]
            if left not in {item[0] for item in self.instants()}:
                assert rollback(str(self.path), left, timeline_timezone="UTC") == (left,)

    def metadata_differences(self) -> set[tuple[str, str, int]]:
        """The (partition, file, size) that only Hudi's metadata table has, or only the folders.

        The procedure's own listing of folders is not used: 1.2.0 takes it from the metadata table too, so that it finds
        no missing file.
        """
        self.hudi.call(f"CREATE TABLE {NAME} USING hudi LOCATION '{self.path}'")
        rows = self.hudi.call(f"CALL validate_metadata_table_files(table => '{NAME}', verbose => true)")
        self.hudi.call(f"DROP TABLE {NAME}")
        files = [path for path in self.path.rglob("*") if path.is_file() and ".hoodie" not in path.parts]
        in_folders = {
            (str(path.parent.relative_to(self.path)).removeprefix("."), path.name, path.stat().st_size)
            for path in files
            if not path.name.endswith(".crc") and not path.name.startswith(".hoodie_partition_metadata")
        }
        return in_folders ^ {
            (row["partition"], row["file_name"], row["metadata_size"]) for row in rows if row["is_present_in_metadata"]
        }

    def _call(self, options: dict[str, str], *statements: str) -> None:
        """Statements of Hudi under these options."""
        self.hudi.script({name: text for name, text in options.items() if text}, list(statements))

    def _call_by_name(self, procedure: str) -> None:
        """A procedure of Hudi that finds the table by its name in the catalog."""
        create = f"CREATE TABLE {NAME} USING hudi LOCATION '{self.path}'"
        # 0.15.0 takes the schema of later writes from the catalog's table of this name
        names = ("hoodie.metadata.", "hoodie.write.table.version", "hoodie.write.auto.upgrade")
        options = {name: self.options[name] for name in self.options if name.startswith(names)}
        # of a history that failed there is still a table
        self._call(options, f"DROP TABLE IF EXISTS {NAME}", create, f"CALL {procedure}", f"DROP TABLE {NAME}")

    def read(self, **options: str) -> pa.Table:
        """Penstock's rows."""
        return penstock.read(str(self.path), **options).read_all()
