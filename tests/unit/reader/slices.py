"""Small file slices for the reader's tests: written to disk, described as scan and split, read by reader and oracle."""

from __future__ import annotations

import datetime
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import (
    AllRows,
    CommitTimeOrdering,
    EventTimeOrdering,
    FileRef,
    MergeMode,
    RowsOf,
    Scan,
    Split,
    VisibleInstants,
)
from penstock.reader.read_split import ReadOptions, SplitBatch, output_schema, read_split
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from tests.oracle import slice_writer
from tests.oracle.file_slice import FileSlice

BASE_INSTANT = "20260101000000000"


@dataclass
class SliceFolder:
    """A table of one file group in `folder`: what is written is taken into the next split."""

    folder: pathlib.Path
    fields: Mapping[str, Any]
    merge: MergeMode = field(default_factory=CommitTimeOrdering)
    base: FileRef | None = None
    logs: list[FileRef] = field(default_factory=list)
    key_fields: tuple[str, ...] = ()

    @property
    def avro(self) -> dict[str, Any]:
        """The table's schema, meta columns in front unless keys are virtual."""
        return slice_writer.table_schema(self.fields, with_meta=not self.key_fields)

    @property
    def arrow(self) -> pa.Schema:
        """The same as Arrow."""
        return arrow_schema(parse_record_schema(json.dumps(self.avro)))

    def write_base(self, row_groups: Sequence[Sequence[Mapping[str, Any]]], schema: pa.Schema | None = None) -> None:
        """A base file of these row groups, with the table's columns or `schema`'s."""
        path = self.folder / f"group_0-1-1_{BASE_INSTANT}.parquet"
        rows = [[{"_hoodie_commit_time": BASE_INSTANT, **row} for row in group] for group in row_groups]
        slice_writer.write_base(path, schema or self.arrow, rows)
        self.base = FileRef(path.name, path.stat().st_size)

    def write_log(self, *blocks: bytes) -> None:
        """The next log file."""
        path = self.folder / f".group_{BASE_INSTANT}.log.{len(self.logs) + 1}_0-1-1"
        path.write_bytes(b"".join(blocks))
        self.logs.append(FileRef(path.name, path.stat().st_size))

    def scan(self, **changed: Any) -> Scan:
        """Every column and instant, unless changed."""
        value: dict[str, Any] = {
            "table": "orders",
            "base_path": str(self.folder),
            "table_version": 9,
            "schema_json": json.dumps(self.avro),
            "columns": tuple(self.arrow.names),
            "merge": self.merge,
            "visible": VisibleInstants(frozenset(), "9" * 17),
            "rows": AllRows(),
            "key_fields": self.key_fields,
        }
        return Scan(**{**value, **changed})

    def split(self, **changed: Any) -> Split:
        """The files written so far."""
        value: dict[str, Any] = {
            "split_id": "s1",
            "partition": "",
            "partition_values": (),
            "file_group": "group",
            "order_key": InstantTime(BASE_INSTANT),
            "base": self.base,
            "base_instant": BASE_INSTANT if self.base else "",
            "logs": tuple(self.logs),
        }
        return Split(**{**value, **changed})

    def read(
        self, *, start: int = 0, options: ReadOptions | None = None, split: Split | None = None, **changed: Any
    ) -> list[SplitBatch]:
        """What the reader gives."""
        return list(read_split(self.scan(**changed), split or self.split(), start=start, options=options))

    def rows(self, **changed: Any) -> list[dict[str, Any]]:
        """The reader's rows as dicts."""
        return [row for result in self.read(**changed) for row in result.batch.to_pylist()]

    def oracle(self, kind: str = "", sortable: Any = None) -> list[dict[str, Any]]:
        """The oracle's rows; `kind` names the ordering column's type."""
        ordering = None
        if isinstance(self.merge, EventTimeOrdering) and self.merge.ordering_fields:
            ordering = (self.merge.ordering_fields[0], kind)
        result = FileSlice(
            base=self.folder / self.base.path if self.base else None,
            logs=[self.folder / log.path for log in self.logs],
            base_instant=BASE_INSTANT if self.base else "",
            ordering=ordering,
            key_fields=self.key_fields,
            **({"sortable": sortable} if sortable else {}),
        )
        return result.rows()


def rows_of(*instants: str) -> RowsOf:
    """Rows written by these instants."""
    return RowsOf(frozenset(InstantTime(instant) for instant in instants))


def table_of(batches: Sequence[SplitBatch], scan: Scan) -> pa.Table:
    """All batches as one table."""
    return pa.Table.from_batches([result.batch for result in batches], output_schema(scan))


def ordinals_of(batches: Sequence[SplitBatch]) -> list[int]:
    """The ordinal of each row."""
    return [ordinal for result in batches for ordinal in result.ordinals().tolist()]


def comparable(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Exact text of rows: NaN equals itself, -0.0 differs from 0.0, moments are UTC, a map is a list of its entries."""

    def value(held: Any) -> Any:
        match held:
            case datetime.datetime() if held.tzinfo is not None:
                return held.astimezone(datetime.UTC)
            case dict():
                return sorted((name, value(inner)) for name, inner in held.items())
            case list():
                return [value(inner) for inner in held]
            case tuple():
                return tuple(value(inner) for inner in held)
        return held

    return [repr(value(dict(row))) for row in rows]
