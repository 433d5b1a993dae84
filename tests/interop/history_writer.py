"""Runs a history in Hudi: options, columns, procedures, crashes.

`histories` decides the actions, `history_checker` compares the rows.
"""

from __future__ import annotations

import datetime as dt
import pathlib
from typing import Any

from tests.interop import history_options
from tests.interop.history_actions import (
    Action,
    Crash,
    DropPartition,
    EmptyCommit,
    LogCompaction,
    PartialUpdate,
    Race,
    Restore,
    Rollback,
    Row,
    Savepoint,
    Service,
    Shape,
    Upgrade,
    Write,
)

WRITES = ("commit", "deltacommit", "replacecommit")
Instants = list[tuple[str, str | None, str]]

_ORDERING = {
    "long": "c1",
    "int": "cast(c1 AS int)",
    "string": "concat('v', c1)",
    "timestamp": "timestamp_micros(1700000000000000 + c1 * 1000003)",
    "decimal": "cast(c1 / 4 AS decimal(12, 3))",
}
_PLAIN = (
    ("name", "if(c2 % 5 = 0, null, concat('n', c2))"),
    ("price", "cast(c2 + 0.25 AS decimal(10, 2))"),
    ("ratio", "cast(c2 / 3.0 AS double)"),
    ("at", "timestamp_micros(1700000000000000 + c2 * 1000000 + 123)"),
    ("day", "date_add(date'2023-11-14', cast(c2 AS int))"),
)
_NESTED = (
    ("tags", "if(c2 % 4 = 0, null, array(concat('t', c2), 'x'))"),
    ("attrs", "map('a', c2, concat('b', c2), null)"),
    ("spot", "named_struct('x', cast(c2 AS int), 'y', if(c2 % 3 = 0, null, concat('y', c2)))"),
)
_ADDED = (("extra_1", "nullif(concat('e', c2), '')"), ("extra_2", "nullif(c2 * 2, 0)"))
_SERVICES = {
    "compaction": {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"},
    "clustering": {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"},
    "clean": {
        "hoodie.clean.automatic": "true",
        "hoodie.clean.async": "false",
        "hoodie.clean.commits.retained": "1",
        "hoodie.cleaner.commits.retained": "1",
    },
    "log compaction": {
        "hoodie.log.compaction.inline": "true",
        "hoodie.log.compaction.enable": "true",
        "hoodie.log.compaction.blocks.threshold": "2",
        "hoodie.optimized.log.blocks.scan.enable": "true",
        "hoodie.log.record.reader.use.scanV2": "true",
    },
}
_ARCHIVES = {
    **_SERVICES["clean"],
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.commits.archival.batch": "1",
}
_PAYLOADS = {
    True: "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    False: "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}
_OTHER_WRITERS = {"sql": ("insert", "upsert", "bulk_insert"), "java": ("insert", "upsert", "bulk_insert", "delete")}
NULL = "__HIVE_DEFAULT_PARTITION__"
_MANY_WRITERS = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
}


def columns_of(shape: Shape, added: int) -> list[tuple[str, str]]:
    """The table's columns as SQL expressions over (key, ordering, value, partition, is_deleted).

    The first schema change adds a column; the second adds another and widens an int to long.
    """
    nested = _NESTED if shape.wide else ()
    quantity = ("qty", "c2" if added > 1 else "cast(c2 AS int)")
    first = (("id", "c0"), ("seq", _ORDERING[shape.ordering]), ("city", "cast(c3 AS string)"), quantity)
    flag = (("_hoodie_is_deleted", "c4"),) if shape.has_flags else ()
    return [*first, *_PLAIN, *nested, *history_options.columns_of(shape.options), *flag, *_ADDED[:added]]


def write_options(shape: Shape) -> dict[str, str]:
    """The options of every write and procedure of the table."""
    options = {
        "hoodie.table.name": "history",
        "hoodie.write.table.version": str(shape.version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if shape.merge_on_read else "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": history_options.partition_column(shape.options)
        if shape.partitioned
        else "",
        "hoodie.datasource.write.hive_style_partitioning": str(shape.hive_style).lower(),
        "hoodie.metadata.enable": str(shape.metadata_table).lower(),
        "hoodie.write.record.positions": str(shape.record_positions).lower(),
        # a crash is made from a completed write, whose markers are deleted
        "hoodie.rollback.using.markers": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.write.markers.type": "DIRECT",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clustering.plan.strategy.small.file.limit": "100000000",
        "hoodie.clustering.plan.strategy.target.file.max.bytes": "100000000",
        "hoodie.bloom.index.parallelism": "1",
        **{f"hoodie.{step}.shuffle.parallelism": "1" for step in ("insert", "upsert", "delete", "bulkinsert")},
    }
    if shape.version == 6:
        options["hoodie.datasource.write.payload.class"] = _PAYLOADS[shape.event_time]
    else:
        mode = "EVENT_TIME_ORDERING" if shape.event_time else "COMMIT_TIME_ORDERING"
        options |= {"hoodie.record.merge.mode": mode, "hoodie.write.record.merge.mode": mode}
    if shape.options.key_generator == "custom":
        options["hoodie.datasource.write.partitionpath.field"] = "city:SIMPLE"
    if not shape.small_files:
        options["hoodie.parquet.small.file.limit"] = "0"
    if shape.small_blocks:
        options["hoodie.logfile.data.block.max.size"] = "300"
    if shape.many_groups:
        options |= {"hoodie.copyonwrite.insert.split.size": "3", "hoodie.copyonwrite.insert.auto.split": "false"}
    if shape.archives:
        options |= _ARCHIVES
    if shape.changes:
        options |= {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": shape.changes}
    return options | history_options.write_options(shape.options) | _index_options(shape) | _writer_options(shape)


def _index_options(shape: Shape) -> dict[str, str]:
    match shape.index:
        case "bucket":
            return {
                "hoodie.index.type": "BUCKET",
                "hoodie.index.bucket.engine": "SIMPLE",
                "hoodie.bucket.index.num.buckets": "2",
                "hoodie.bucket.index.hash.field": "id",
            }
        case "memory":
            return {"hoodie.index.type": "INMEMORY"}
        case "global":
            return {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
        case _:
            return {"hoodie.index.type": "SIMPLE"}


def _writer_options(shape: Shape) -> dict[str, str]:
    if not shape.many_writers:
        return {}
    together = shape.version >= 8 and shape.index == "bucket" and shape.merge_on_read
    mode = "NON_BLOCKING_CONCURRENCY_CONTROL" if together else "OPTIMISTIC_CONCURRENCY_CONTROL"
    return _MANY_WRITERS | {
        "hoodie.write.concurrency.mode": mode,
        "hoodie.table.type": "MERGE_ON_READ" if shape.merge_on_read else "COPY_ON_WRITE",
    }


class HistoryWriter:
    """One table that Hudi writes. Each action returns the instants that it completed."""

    def __init__(self, hudi: Any, table: pathlib.Path, shape: Shape) -> None:
        self._hudi, self._table, self._shape = hudi, table, shape
        self._options = write_options(shape)
        self._added = 0
        self._saved = ""
        self._crashed: list[str] = []

    def carry_out(self, action: Action) -> Instants:
        """Runs an action. RuntimeError: Hudi failed; it has Hudi's message."""
        before = self._hudi.instants(self._table) if self._table.exists() else []
        match action:
            case Write():
                self._write(action)
            case DropPartition(partition):
                column = history_options.partition_column(self._shape.options)
                path = partition if column == "city" else history_options.DAYS[partition].replace("-", "/")
                named = f"{column}={path}" if self._shape.hive_style else path
                drop = {"hoodie.datasource.write.partitions.to.delete": named}
                self._write(Write("delete_partition", (Row("none", 0, 0, partition),), columns=self._added), drop)
            case Service(kind, step):
                options = ",".join(f"{key}={value}" for key, value in self._options.items() if value)
                options += ",hoodie.compact.inline.max.delta.commits=1"
                name = {"compaction": "run_compaction", "clustering": "run_clustering"}[kind]
                self._hudi.call(f"CALL {name}(op => '{step}', path => '{self._table}', options => '{options}')")
            case PartialUpdate(rows):
                self._merge_into(rows)
            case LogCompaction():
                self._write_nothing(_SERVICES["log compaction"])
            case Savepoint():
                self._saved = max(item[0] for item in before if item[2] in WRITES)
                self._hudi.call(f"CALL create_savepoint(path => '{self._table}', commit_time => '{self._saved}')")
            case Restore():
                restore = f"CALL rollback_to_savepoint(path => '{self._table}', instant_time => '{self._saved}')"
                # the procedure reads its options from the session; 0.15.0 refuses one of a recent metadata table
                self._hudi.script({"hoodie.metadata.enable": "false"}, [restore])
            case Upgrade(version, write):
                self._options |= {"hoodie.write.table.version": str(version)}
                self._write(write, {"hoodie.write.auto.upgrade": "true"})
            case EmptyCommit():
                self._write_nothing({})
            case Crash(write):
                self._write(write)
                self._undo_completion(before)
            case Race(slow, fast):
                self._added = max(slow.columns, fast.columns)
                columns = columns_of(self._shape, self._added)
                of_slow, of_fast = self._options_of(slow), self._options_of(fast)
                self._hudi.race(self._table, columns, (_values(slow), of_slow), (_values(fast), of_fast))
            case Rollback():
                newest = max(item[0] for item in before if item[2] in WRITES)
                name = self._catalogued()
                self._hudi.call(f"CALL rollback_to_instant(table => '{name}', instant_time => '{newest}')")
        known = {(requested, kind) for requested, _, kind in before}
        return [item for item in self._hudi.instants(self._table) if (item[0], item[2]) not in known]

    def _write_nothing(self, more: dict[str, str]) -> None:
        fields = ", ".join(f"{text} AS {name}" for name, text in columns_of(self._shape, self._added))
        values = "VALUES ('none', 1L, 1L, 'oslo', false) AS v(c0, c1, c2, c3, c4)"
        empty = {"hoodie.datasource.write.operation": "upsert", "hoodie.allow.empty.commit": "true"}
        self._hudi.write_query(self._table, f"SELECT {fields} FROM {values} WHERE false", self._options | empty | more)

    def _merge_into(self, rows: tuple[Row, ...]) -> None:
        """A partial update that sets only name, price and the ordering column."""
        name = self._catalogued()
        columns = dict(columns_of(self._shape, self._added))
        fields = ", ".join(f"{columns[column]} AS {column}" for column in ("id", "seq", "city", "name", "price"))
        values = ", ".join(f"('{row.key}', {row.ordering}L, {row.value}L, {_text(row.partition)})" for row in rows)
        source = f"SELECT {fields} FROM VALUES {values} AS v(c0, c1, c2, c3)"
        updates = "name = s.name, price = s.price, seq = s.seq"
        merge = f"MERGE INTO {name} t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {updates}"
        settings = {key: value for key, value in self._options.items() if value}
        self._hudi.script(settings | {"hoodie.spark.sql.merge.into.partial.updates": "true"}, [merge])

    def _catalogued(self) -> str:
        """The table's name in the session's catalog, with its current schema."""
        name = self._table.name.replace("-", "_")
        create = f"CREATE TABLE {name} USING hudi LOCATION '{self._table}'"
        self._hudi.script({}, [f"DROP TABLE IF EXISTS {name}", create])
        return name

    def _write(self, write: Write, more: dict[str, str] | None = None) -> None:
        # the DataFrame creates the table and adds columns; a rollback may remove an added one from the catalog's table
        is_sql = self._shape.options.writer == "sql"
        is_new = not self._table.exists() or write.columns > (0 if is_sql else self._added)
        self._added = write.columns
        columns, options = columns_of(self._shape, write.columns), self._options_of(write) | (more or {})
        if is_new or more or write.operation not in _OTHER_WRITERS.get(self._shape.options.writer, ()):
            self._hudi.write(self._table, columns, _values(write), options)
        elif is_sql:
            self._insert_into(columns, write, options)
        else:
            segment = "city=" if self._shape.hive_style else ""
            paths = [f"{segment}{row.partition or NULL}" if self._shape.partitioned else "" for row in write.rows]
            keys = [[row.key, path] for row, path in zip(write.rows, paths, strict=True)]
            request = {"columns": columns, "rows": _values(write), "keys": keys, "operation": write.operation}
            self._hudi.write_records(self._table, **request, options=options)

    def _insert_into(self, columns: list[tuple[str, str]], write: Write, options: dict[str, str]) -> None:
        """`INSERT INTO`, with the partition column last."""
        name = self._catalogued()
        ordered = sorted(columns, key=lambda column: self._shape.partitioned and column[0] == "city")
        fields = ", ".join(f"{expression} AS {column}" for column, expression in ordered)
        rows = ", ".join("(" + ", ".join(map(_literal, row)) + ")" for row in _values(write))
        settings = {key: value for key, value in options.items() if value}
        settings["hoodie.spark.sql.insert.into.operation"] = write.operation
        query = f"INSERT INTO {name} SELECT {fields} FROM VALUES {rows} AS v(c0, c1, c2, c3, c4)"
        self._hudi.script(settings, [query])

    def _options_of(self, write: Write) -> dict[str, str]:
        options = self._options | {"hoodie.datasource.write.operation": write.operation}
        for service in write.inline:
            options |= _SERVICES[service]
        return options

    @property
    def saved(self) -> str:
        """The instant of the newest savepoint; empty before the first."""
        return self._saved

    @property
    def _folder(self) -> pathlib.Path:
        timeline = self._table / ".hoodie" / "timeline"
        return timeline if timeline.is_dir() else timeline.parent

    def crashed(self) -> tuple[str, ...]:
        """Requested times of the crashed writes that are not rolled back."""
        return tuple(requested for requested in self._crashed if any(self._folder.glob(f"{requested}.*")))

    def _undo_completion(self, before: Instants) -> None:
        """Turns the newest write into one that crashed directly before its completion."""
        completed = [item for item in self._hudi.instants(self._table) if item not in before]
        requested, completion, action = max(item for item in completed if item[2] in ("commit", "deltacommit"))
        name = f"{requested}_{completion}.{action}" if completion else f"{requested}.{action}"
        (self._folder / name).unlink()
        (self._folder / f".{name}.crc").unlink(missing_ok=True)
        self._crashed.append(requested)


def _values(write: Write) -> list[list[Any]]:
    return [[row.key, row.ordering, row.value, row.partition, row.is_deleted] for row in write.rows]


def _literal(value: object) -> str:
    """A value of a row in SQL."""
    match value:
        case None:
            return "cast(NULL AS string)"
        case bool():
            return str(value).lower()
        case int():
            return f"{value}L"
        case _:
            return f"'{value}'"


def _text(value: str | None) -> str:
    return "cast(NULL AS string)" if value is None else f"'{value}'"


def now() -> str:
    """The current time as an instant, in the zone of the writer's process."""
    return dt.datetime.now(dt.UTC).strftime("%Y%m%d%H%M%S%f")[:17]
