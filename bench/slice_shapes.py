"""The shapes of `shapes`: how each differs from the plain table, and the file slice that it is written as."""

from __future__ import annotations

import datetime
import pathlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.avro_shapes import ATTRIBUTES, KINDS, LINES, NULLABLE_ADDRESS, address, attributes, lines
from penstock.proto.model.files import FileRef
from penstock.proto.model.splits import (
    CommitTimeOrdering,
    DeleteMarker,
    EventTimeOrdering,
    FillDefaults,
    FillNulls,
    MergeMode,
)
from penstock.reader.read_split import ReadOptions, SplitBatch, read_split
from tests.oracle import slice_writer
from tests.unit.reader.slices import BASE_INSTANT, SliceFolder

Kind = tuple[Any, Callable[[random.Random], Any]]
Row = dict[str, Any]

BASE_ROWS = 20_000
LOG_ROWS = 2_000
INSTANT = "20260102000000000"
FIXED_BYTES = 16
_STORED = {
    "fixed": pa.binary(FIXED_BYTES),
    "time-millis": pa.time32("ms"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
}


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice on disk."""

    folder: SliceFolder
    scan: Mapping[str, Any]
    rows: int
    """The rows of a read."""
    records: int
    """Rows of the base file, and records of logs."""
    size_bytes: int
    """Bytes of the files."""

    def read(self) -> Iterator[SplitBatch]:
        """A read of all rows and columns by the compiled kernels."""
        return read_split(self.folder.scan(**self.scan), self.folder.split(), options=ReadOptions(compiled=True))


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The plain table, changed by what the fields say."""

    name: str
    """What the table shows."""
    kinds: Sequence[Kind] = KINDS
    """Type of each column, and its values."""
    nulls: float = 0.1
    """Share of nulls."""
    base_rows: int = BASE_ROWS
    """Rows of the base file."""
    log_rows: int = LOG_ROWS
    """Records of the log, updates of every n-th row of the base file, or of all and of new rows."""
    log_files: int = 1
    """Log files that have these records."""
    blocks: int = 1
    """Blocks of each log file."""
    merge: MergeMode = EventTimeOrdering(("ts",))  # noqa: RUF009 - frozen
    """The merge rule."""
    is_parquet_log: bool = False
    """Whether log blocks have Parquet content."""
    partial_columns: int = 0
    """The columns that partial updates have; 0: updates are whole."""
    deletes_all: bool = False
    """Whether the log is a delete block of all keys."""
    evolves: bool = False
    """Whether the older half of the blocks lacks a column, and has another one as int instead of long."""
    virtual_keys: bool = False
    """Whether the table has no meta columns."""
    parquet: Mapping[str, Any] = field(default_factory=dict)
    """Options of the base file's writer."""
    scan: Mapping[str, Any] = field(default_factory=dict)
    """Changes of the scan."""

    def write(self, path: pathlib.Path) -> Slice:
        """Writes the slice into this new folder."""
        path.mkdir()
        chance = random.Random(1)
        fields: dict[str, Any] = {"id": "string", "ts": "long", "ts2": "long"}
        fields |= {f"c{number}": _named(kind, number) for number, (kind, _) in enumerate(self.kinds)}
        folder = SliceFolder(path, fields, self.merge, key_fields=("id",) if self.virtual_keys else ())
        self._write_base(folder, chance)
        step = max(1, self.base_rows // self.log_rows)
        updates = [self._row(place * step, 2, chance) for place in range(self.log_rows)]
        if self.deletes_all:
            keys = [(f"key-{number:09}", "", None) for number in range(self.base_rows)]
            folder.write_log(slice_writer.delete_block(keys, INSTANT))
        else:
            self._write_logs(folder, updates)
        new = max(0, self.log_rows - self.base_rows) if step == 1 else 0
        sizes = [file.size_bytes for file in (folder.base, *folder.logs) if file]
        records = self.base_rows + (self.base_rows if self.deletes_all else self.log_rows)
        return Slice(folder, self.scan, 0 if self.deletes_all else self.base_rows + new, records, sum(sizes))

    def _row(self, number: int, ts: int, chance: random.Random) -> Row:
        key = f"key-{number:09}"
        meta = {
            "_hoodie_commit_time": BASE_INSTANT if ts == 1 else INSTANT,
            "_hoodie_commit_seqno": f"{INSTANT}_0_{number}",
            "_hoodie_record_key": key,
            "_hoodie_partition_path": "",
            "_hoodie_file_name": "f",
        }
        row = {} if self.virtual_keys else meta
        row |= {"id": key, "ts": ts, "ts2": number}
        values = {f"c{place}": make for place, (_, make) in enumerate(self.kinds)}
        return row | {name: None if chance.random() < self.nulls else make(chance) for name, make in values.items()}

    def _write_base(self, folder: SliceFolder, chance: random.Random) -> None:
        rows = [self._row(number, 1, chance) for number in range(self.base_rows)]
        path = folder.folder / f"group_0-1-1_{BASE_INSTANT}.parquet"
        data = pa.Table.from_pylist(rows, self._stored(folder.arrow))
        pq.write_table(data, path, store_schema=False, **{"compression": "snappy", **self.parquet})
        folder.base = FileRef(path.name, path.stat().st_size)

    def _stored(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the base file: a fixed has its size there, and milliseconds stay."""
        for place, (kind, _) in enumerate(self.kinds):
            type_ = _STORED.get(kind.get("logicalType", kind["type"])) if isinstance(kind, dict) else None
            if type_ is not None:
                schema = schema.set(schema.get_field_index(f"c{place}"), pa.field(f"c{place}", type_))
        return schema

    def _write_logs(self, folder: SliceFolder, updates: list[Row]) -> None:
        parts = self.log_files * self.blocks
        per_part = len(updates) // parts
        made = []
        for part in range(parts):
            some = updates[part * per_part : (part + 1) * per_part]
            made.append(self._block(folder, some, is_old=self.evolves and part < parts // 2))
        for first in range(0, parts, self.blocks):
            folder.write_log(*made[first : first + self.blocks])

    def _block(self, folder: SliceFolder, rows: list[Row], *, is_old: bool) -> bytes:
        if self.is_parquet_log:
            return slice_writer.parquet_block(folder.arrow, rows, INSTANT)
        schema = folder.avro
        if is_old:
            names = [name for name in folder.fields if name != "c0"]
            schema = slice_writer.table_schema({name: folder.fields[name] for name in names} | {"ts2": "int"})
        if self.partial_columns:
            names = ["id", "ts", *(f"c{place}" for place in range(self.partial_columns))]
            schema = slice_writer.table_schema({name: folder.fields[name] for name in names})
        return slice_writer.data_block(schema, rows, INSTANT, partial=bool(self.partial_columns))


PLAIN = Shape(name="plain")


def shapes() -> list[Shape]:
    """Every shape."""
    return [*_of_types(), *_of_values(), *_of_files(), *_of_merges()]


def _eight(kind: Any, make: Callable[[random.Random], Any]) -> Sequence[Kind]:
    return [(kind, make)] * 8


def _text(size: int) -> Callable[[random.Random], str]:
    return lambda chance: f"{chance.getrandbits(40):010x}" * (size // 10) if size >= 10 else "x" * size


def _decimal(digits: int) -> Callable[[random.Random], Decimal]:
    return lambda chance: Decimal(chance.randrange(-(10**digits) + 1, 10**digits)).scaleb(-2)


def _of_types() -> Iterator[Shape]:
    """Eight columns of one type."""
    epoch = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def moment(chance: random.Random) -> datetime.datetime:
        return epoch + datetime.timedelta(milliseconds=chance.getrandbits(30))

    def local(chance: random.Random) -> datetime.datetime:
        return moment(chance).replace(tzinfo=None)

    def clock(chance: random.Random) -> datetime.time:
        return moment(chance).time()  # whole milliseconds

    def logical(kind: str, name: str, **more: Any) -> Any:
        return {"type": kind, "logicalType": name, **more}

    wide = {"precision": 38, "scale": 2}
    types: list[tuple[str, Any, Callable[[random.Random], Any]]] = [
        ("boolean", "boolean", lambda chance: chance.random() < 0.5),
        ("int", "int", lambda chance: chance.getrandbits(20)),
        ("long", "long", lambda chance: chance.getrandbits(50)),
        ("float", "float", lambda chance: chance.getrandbits(10) / 4),
        ("double", "double", lambda chance: chance.random()),
        ("string", "string", _text(20)),
        ("bytes", "bytes", lambda chance: chance.randbytes(20)),
        ("fixed", {"type": "fixed", "size": FIXED_BYTES}, lambda chance: chance.randbytes(FIXED_BYTES)),
        ("enum", {"type": "enum", "symbols": ["ALPHA", "BRAVO", "C"]}, lambda chance: chance.choice(["ALPHA", "C"])),
        ("uuid", logical("string", "uuid"), lambda chance: f"{chance.getrandbits(128):032x}"),
        ("date", logical("int", "date"), lambda chance: moment(chance).date()),
        ("time-millis", logical("int", "time-millis"), clock),
        ("time-micros", logical("long", "time-micros"), clock),
        ("timestamp-millis", logical("long", "timestamp-millis"), moment),
        ("timestamp-micros", logical("long", "timestamp-micros"), moment),
        ("local-timestamp-millis", logical("long", "local-timestamp-millis"), local),
        ("local-timestamp-micros", logical("long", "local-timestamp-micros"), local),
        ("decimal of 9 digits, bytes", logical("bytes", "decimal", precision=9, scale=2), _decimal(9)),
        ("decimal of 38 digits, bytes", logical("bytes", "decimal", **wide), _decimal(38)),
        ("decimal of 38 digits, fixed", logical("fixed", "decimal", size=16, **wide), _decimal(38)),
        ("struct of 4", NULLABLE_ADDRESS[1], address),
        ("list of structs", LINES, lines),
        ("map", ATTRIBUTES, attributes),
    ]
    for name, kind, make in types:
        yield replace(PLAIN, name=f"8 x {name}", kinds=_eight(kind, make))


def _of_values() -> Iterator[Shape]:
    """Nulls, sizes, encodings and numbers of columns."""
    for share in (0, 50, 100):
        yield replace(PLAIN, name=f"{share} % nulls", nulls=share / 100)
    for size in (0, 100, 1_000, 10_000):
        few = BASE_ROWS // 10 if size > 1000 else BASE_ROWS
        kinds = _eight("string", _text(size))
        yield replace(PLAIN, name=f"8 x strings of {size:,} bytes", kinds=kinds, base_rows=few, log_rows=few // 10)
    yield replace(PLAIN, name="base without dictionaries", parquet={"use_dictionary": False})
    yield replace(PLAIN, name="base with zstd", parquet={"compression": "zstd"})
    yield replace(PLAIN, name="base of row groups of 1,000", parquet={"row_group_size": 1000})
    wide = [KINDS[place % len(KINDS)] for place in range(1000)]
    yield replace(PLAIN, name="1,000 columns", kinds=wide, base_rows=1000, log_rows=100)


def _of_files() -> Iterator[Shape]:
    """Numbers and kinds of log files and blocks."""
    yield replace(PLAIN, name="base alone", log_rows=1)
    yield replace(PLAIN, name="logs of 10 % in Parquet blocks", is_parquet_log=True)
    yield replace(PLAIN, name="200 log blocks in a file", blocks=200)
    yield replace(PLAIN, name="200 log files", log_files=200)
    yield replace(PLAIN, name="200 Parquet log blocks", blocks=200, is_parquet_log=True)
    yield replace(PLAIN, name="10,000 log files of a record", log_files=10_000, log_rows=10_000)
    yield replace(PLAIN, name="log of 10 times the base", base_rows=2_000, log_rows=20_000)
    yield replace(PLAIN, name="all rows deleted", deletes_all=True)
    yield replace(PLAIN, name="schema evolution in the log", blocks=2, evolves=True)


def _of_merges() -> Iterator[Shape]:
    """Merge rules."""
    yield replace(PLAIN, name="commit-time ordering", merge=CommitTimeOrdering())
    yield replace(PLAIN, name="two ordering fields", merge=EventTimeOrdering(("ts", "ts2")))
    yield replace(PLAIN, name="deletes win", merge=EventTimeOrdering(("ts",), deletes_win=True))
    yield replace(PLAIN, name="delete marker", scan={"delete_marker": DeleteMarker("c2", "D")})
    yield replace(PLAIN, name="partial updates of 2 columns", partial_columns=2)
    yield replace(PLAIN, name="PartialUpdateAvroPayload", scan={"fill": FillNulls()})
    yield replace(PLAIN, name="OverwriteNonDefaults payload", scan={"fill": FillDefaults(by_identity=False)})
    yield replace(PLAIN, name="virtual keys", virtual_keys=True)


def _named(kind: Any, number: int) -> Any:
    """The kind with names of its own: a schema defines a name once."""
    if isinstance(kind, list):
        return [_named(item, number) for item in kind]
    if not isinstance(kind, dict):
        return kind
    named = {key: _named(value, number) for key, value in kind.items()}
    if kind["type"] == "record":
        named["fields"] = [{**entry, "type": _named(entry["type"], number)} for entry in kind["fields"]]
    if kind["type"] in ("record", "fixed", "enum"):
        named["name"] = f"{kind.get('name', kind['type'])}_{number}"
    return named
