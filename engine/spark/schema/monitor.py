"""Compares the schema of each micro-batch with the fixed schema of the stream, and logs each change once."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.engine.spark.schema.changes import Added, SchemaChange, breaking, new_columns, schema_changes
from penstock.proto.errors import SchemaMismatch
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import Position
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.completion import returned_schema
from penstock.table.storage.uris import redacted_uri

log = logging.getLogger("penstock.engine.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedSchema:
    """The schema of a stream, which stays the same until the stream is loaded again."""

    columns: StructType
    """The columns at load(), without those of the watermark."""
    changes: ChangeFormat | None = None
    """The format of changes; None if the stream reads rows."""
    completion_time: bool = False
    """Whether `_completion_time` is one of the columns that the stream can read."""
    is_whole: bool = False
    """Whether the columns were all that the stream could read at load(): neither `columns` nor `.schema()` chose."""
    fails_on_new: bool = False
    """Whether the stream stops at new columns (`onNewColumns=fail`)."""


class SchemaMonitor:
    """The monitor of one stream. Used by one thread."""

    def __init__(self, table: str, fixed: FixedSchema) -> None:
        self._table, self._fixed = redacted_uri(table), fixed
        self._last: tuple[str, tuple[SchemaChange, ...], tuple[Added, ...]] = ("", (), ())
        self.counts: Counter[str] = Counter()
        """The number of micro-batches with each change with which the stream continued, by its text."""

    def breaking_changes(self, schema_json: str) -> tuple[SchemaChange, ...]:
        """The changes because of which a micro-batch of this schema ('': no rows) cannot be read; () if it can.

        A change with which the stream continues is counted, and logged the first time.
        """
        changes, added = self._compared(schema_json)
        breaking_changes = breaking(changes)
        if not breaking_changes and not (added and self._fixed.fails_on_new):
            for change in changes:
                self._count(
                    str(change),
                    "the stream continues with the schema that it was loaded with, as long as each value fits it "
                    "exactly",
                )
        return breaking_changes

    def check_new_columns(self, schema_json: str, start: Position) -> None:
        """SchemaMismatch, which names them, if a micro-batch of this schema after `start` has new columns and the
        stream stops at them; else each new column is counted, and logged the first time."""
        _, added = self._compared(schema_json)
        if added and self._fixed.fails_on_new:
            raise SchemaMismatch(
                f"table {self._table} has new columns that the stream's schema lacks (onNewColumns=fail): "
                f"{', '.join(map(str, added))}. Everything up to {start} was delivered; start the query again with a "
                "new load() (and a sink that accepts the new columns): it continues after that from the checkpoint"
            )
        for column in added:
            if "." not in column.column:  # a struct that gained a field is logged as widened
                self._count(
                    f"column {column} is new", "the stream continues without it until it is loaded again (onNewColumns)"
                )

    def _count(self, change: str, consequence: str) -> None:
        self.counts[change] += 1
        if self.counts[change] == 1:
            log.warning("table %s: %s; %s", self._table, change, consequence)

    def _compared(self, schema_json: str) -> tuple[tuple[SchemaChange, ...], tuple[Added, ...]]:
        """The changes of the stream's columns in a table of this schema, and the columns that are new."""
        if not schema_json or self._fixed.changes is ChangeFormat.HUDI:
            return (), ()
        if schema_json != self._last[0]:
            table = self._returned(schema_json)
            added = new_columns(self._fixed.columns, table) if self._fixed.is_whole else ()
            self._last = schema_json, schema_changes(self._fixed.columns, table), added
        return self._last[1:]

    def _returned(self, schema_json: str) -> pa.Schema:
        table = arrow_schema(parse_record_schema(schema_json, f"schema of table {self._table}"))
        return returned_schema(table, self._fixed.changes, completion_time=self._fixed.completion_time)

    def mismatch(
        self, breaking_changes: tuple[SchemaChange, ...], start: Position, end: Position | None
    ) -> SchemaMismatch:
        """The error that ends the stream before the micro-batch from `start` to `end` (None: a batch of a topic)."""
        since = "" if end is None else f", from commit {end} on"
        return SchemaMismatch(
            f"table {self._table} no longer fits the schema that the stream was loaded with{since}: "
            f"{'; '.join(map(str, breaking_changes))}. Everything up to {start} "
            "was delivered; start the query again with a new load() (and a sink that accepts the new schema): it "
            "continues after that from the checkpoint"
        )
