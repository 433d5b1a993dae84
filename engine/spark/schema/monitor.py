"""Compares the schema of each micro-batch with the fixed schema of the stream, and logs each change once."""

from __future__ import annotations

import logging
from collections import Counter

from pyspark.sql.types import StructType

from penstock.engine.spark.schema.changes import SchemaChange, breaking, schema_changes
from penstock.proto.errors import SchemaMismatch
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import Position
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.changes import change_schema
from penstock.table.storage.filesystem import redacted_uri

log = logging.getLogger("penstock.engine.spark")


class SchemaMonitor:
    """The monitor of one stream. Used by one thread."""

    def __init__(self, table: str, fixed: StructType, changes: ChangeFormat | None) -> None:
        """`fixed`: the table's columns at load(). `changes`: the format of changes; None if the stream reads rows."""
        self._table, self._fixed, self._changes = table, fixed, changes
        self._last: tuple[str, tuple[SchemaChange, ...]] = ("", ())
        self.counts: Counter[str] = Counter()
        """The number of micro-batches with each change with which the stream continued, by its text."""

    def breaking_changes(self, schema_json: str) -> tuple[SchemaChange, ...]:
        """The changes because of which a micro-batch of this schema ('': no rows) cannot be read; () if it can.

        A change with which the stream continues is counted, and logged the first time.
        """
        if not schema_json or self._changes is ChangeFormat.HUDI:
            return ()
        if schema_json != self._last[0]:
            table = arrow_schema(parse_record_schema(schema_json, f"schema of table {self._table}"))
            if self._changes is not None:
                table = change_schema(table, self._changes)
            self._last = schema_json, schema_changes(self._fixed, table)
        breaking_changes = breaking(self._last[1])
        if breaking_changes:
            return breaking_changes
        for change in map(str, self._last[1]):
            self.counts[change] += 1
            if self.counts[change] == 1:
                log.warning(
                    "table %s: %s; the stream goes on under the schema that it was loaded with, as long as each value"
                    " fits it exactly",
                    redacted_uri(self._table),
                    change,
                )
        return ()

    def mismatch(
        self, breaking_changes: tuple[SchemaChange, ...], start: Position, end: Position | None
    ) -> SchemaMismatch:
        """The error that ends the stream before the micro-batch from `start` to `end` (None: a batch of a topic)."""
        since = "" if end is None else f", from commit {end} on"
        return SchemaMismatch(
            f"table {redacted_uri(self._table)} no longer fits the schema that the stream was loaded with{since}: "
            f"{'; '.join(map(str, breaking_changes))}. Everything up to {start} "
            "was delivered; start the query again with a new load() (and a sink that accepts the new schema): it "
            "continues after that from the checkpoint"
        )
