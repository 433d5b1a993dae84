"""A file group whose changes are read: files on disk in Hudi's layout, and splits of steps over them."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.proto.model.changes import ChangeFormat, ChangesOf, ChangeSource, ChangeStep, GroupChanges
from penstock.proto.model.files import FileRef, SliceFiles
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import CommitTimeOrdering, MergeMode, Scan, Split, VisibleInstants
from penstock.reader.read_split import ReadOptions, output_schema, read_split
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from tests.oracle import slice_writer
from tests.oracle.log_file import CDC_DATA

OWN = ("_change_type", "_change_instant", "_change_seq")


def instant(number: int) -> InstantTime:
    """The instant of that number."""
    return InstantTime(f"202601010000{number:05d}")


def meta_columns(number: int, place: int, key: str) -> dict[str, str]:
    """Those of the row of this key at a place of what an instant wrote."""
    return {
        "_hoodie_commit_time": str(instant(number)),
        "_hoodie_commit_seqno": f"{instant(number)}_0_{place}",
        "_hoodie_record_key": key,
        "_hoodie_partition_path": "",
    }


@dataclass
class ChangeFolder:
    """A table of one file group in `folder`, with the columns `fields` after the meta columns."""

    folder: pathlib.Path
    fields: Mapping[str, Any]
    merge: MergeMode = field(default_factory=CommitTimeOrdering)
    version: int = 9

    @property
    def avro(self) -> dict[str, Any]:
        """The table's schema."""
        return slice_writer.table_schema(self.fields)

    @property
    def arrow(self) -> pa.Schema:
        """The same as Arrow."""
        return arrow_schema(parse_record_schema(json.dumps(self.avro)))

    def base(self, number: int, rows: Sequence[Mapping[str, Any]]) -> SliceFiles:
        """A base file of instant `number`; rows without a commit time of their own are that instant's."""
        path = self.folder / f"group_0-1-1_{instant(number)}.parquet"
        stamped = [{"_hoodie_commit_time": str(instant(number)), **row} for row in rows]
        slice_writer.write_base(path, self.arrow, [stamped[:2], stamped[2:]])
        return SliceFiles(self.ref(path), instant(number))

    def log(self, number: int, *blocks: bytes, suffix: str = "") -> FileRef:
        """A log file of instant `number`."""
        path = self.folder / f".group_{instant(number)}.log.1_0-1-1{suffix}"
        path.write_bytes(b"".join(blocks))
        return self.ref(path)

    def ref(self, path: pathlib.Path) -> FileRef:
        """The file as splits name it."""
        return FileRef(path.name, path.stat().st_size)

    def change_log(self, number: int, schema: Mapping[str, Any], *blocks: Sequence[Mapping[str, Any]]) -> FileRef:
        """A `.cdc` log of instant `number`: a block for each list of logged changes."""
        result = [slice_writer.data_block(dict(schema), rows, instant(number), kind=CDC_DATA) for rows in blocks]
        return self.log(number, *result, suffix=".cdc")

    def scan(self, form: ChangeFormat, instants: Iterable[InstantTime], **changed: Any) -> Scan:
        """A scan of changes, every column of the format unless changed."""
        columns = (*self.arrow.names, *OWN) if form is ChangeFormat.ROWS else ("op", "ts_ms", "before", "after")
        value: dict[str, Any] = {
            "table": "orders",
            "base_path": str(self.folder),
            "table_version": self.version,
            "schema_json": json.dumps(self.avro),
            "columns": columns,
            "merge": self.merge,
            "visible": VisibleInstants(frozenset()),
            "rows": ChangesOf(form, tuple(instants)),
        }
        return Scan(**{**value, **changed})

    def split(self, steps: Sequence[ChangeStep]) -> Split:
        """A split of these steps."""
        return Split(
            split_id="s1",
            partition="",
            partition_values=(),
            file_group="group",
            order_key=steps[-1].order_key,
            base=None,
            part=GroupChanges(tuple(steps)),
        )

    def read(
        self,
        *sources: tuple[int, ChangeSource],
        form: ChangeFormat = ChangeFormat.ROWS,
        known: Iterable[int] = (),
        start: int = 0,
        options: ReadOptions | None = None,
        **changed: Any,
    ) -> pa.Table:
        """The changes of steps given as (instant's number, source); `known` are instants besides those of steps."""
        scan = self.scan_of(sources, form, known, **changed)
        split = self.split([step(number, source) for number, source in sources])
        batches = [part.batch for part in read_split(scan, split, start=start, options=options)]
        return pa.Table.from_batches(batches, output_schema(scan))

    def batches(self, *sources: tuple[int, ChangeSource]) -> Iterator[pa.RecordBatch]:
        """The same, one batch after the other."""
        split = self.split([step(number, source) for number, source in sources])
        for part in read_split(self.scan_of(sources, ChangeFormat.ROWS, ()), split):
            yield part.batch

    def scan_of(
        self, sources: Iterable[tuple[int, ChangeSource]], form: ChangeFormat, known: Iterable[int], **changed: Any
    ) -> Scan:
        """The scan of these steps."""
        numbers = sorted({*known, *(number for number, _ in sources)})
        return self.scan(form, map(instant, numbers), **changed)


def step(number: int, source: ChangeSource, *, place: int = 0) -> ChangeStep:
    """What instant `number` did."""
    return ChangeStep(instant=instant(number), order_key=instant(number), place=place, source=source)


def kinds_and(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    """`_change_type` and these columns of each row."""
    return list(zip(*(table[name].to_pylist() for name in ("_change_type", *columns)), strict=True))
