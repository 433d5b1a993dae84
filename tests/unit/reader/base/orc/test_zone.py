"""Timestamps of ORC files whose writer was outside of UTC.

pyarrow writes files of the zone GMT. An uncompressed file with another zone of three letters instead is what a writer
in that zone writes for instants that are the zone's offset of 2015 earlier: one hour for CET, which has summer time.
"""

from __future__ import annotations

import io
import json
import pathlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from penstock.proto.errors import CorruptFile, UnsupportedFeature
from penstock.proto.model.files import FileRef
from penstock.reader.base.orc import zone as orc_zone
from penstock.reader.base.orc_file import OrcFile
from penstock.reader.split.emit import BatchSize
from penstock.table.base_formats import read_other_footer
from penstock.table.schema.avro import parse_record_schema
from penstock.table.storage.filesystem import open_storage

AT = {"type": "long", "logicalType": "timestamp-micros"}
NULLABLE = ["null", AT]
KINDS: list[tuple[str, Any]] = [
    ("id", "string"),
    ("at", AT),
    (
        "nested",
        {"type": "record", "name": "s", "fields": [{"name": "n", "type": "long"}, {"name": "at", "type": NULLABLE}]},
    ),
    ("list", {"type": "array", "items": NULLABLE}),
    ("map", {"type": "map", "values": NULLABLE}),
]
FIELDS = [{"name": name, "type": ["null", kind], "default": None} for name, kind in KINDS]
SCHEMA = parse_record_schema(json.dumps({"type": "record", "name": "r", "fields": FIELDS}), "test")
HOUR = 3_600_000_000


def micros(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[arg-type]


WRITTEN = [
    micros(2024, 1, 15),
    micros(2024, 7, 15) + 123_456,
    micros(2023, 10, 29, 0, 30),  # 02:30 in CET, as the next one
    micros(2023, 10, 29, 1, 30),
    micros(2023, 3, 26, 0, 59, 59),
    micros(2023, 3, 26, 1),
    micros(1960, 6, 1) + 1,
    micros(1895, 1, 1),
    micros(2250, 8, 1),
    None,
]
SIZE = BatchSize(rows=4, size_bytes=1 << 20)


def table_of(values: list[int | None], offset: int = HOUR) -> pa.Table:
    """The columns that pyarrow writes in GMT for instants of a writer whose zone is `offset` ahead of it."""
    times = pa.array([None if value is None else value + offset for value in values], pa.timestamp("us"))
    times = times.cast(pa.timestamp("ns"))
    places = pa.array(range(len(values) + 1), pa.int32())
    keys = pa.array(["k"] * len(values))
    return pa.table(
        {
            "id": [str(n) for n in range(len(values))],
            "at": times,
            "nested": pa.StructArray.from_arrays([pa.array(range(len(values)), pa.int64()), times], ["n", "at"]),
            "list": pa.ListArray.from_arrays(places, times),
            "map": pa.MapArray.from_arrays(places, keys, times),
        }
    )


def opened(folder: pathlib.Path, rows: pa.Table, zone: bytes, **options: Any) -> OrcFile:
    sink = io.BytesIO()
    orc.write_table(rows, sink, compression="uncompressed", **options)
    data = sink.getvalue()
    assert data.count(b"GMT") >= 1
    (folder / "f.orc").write_bytes(data.replace(b"GMT", zone))
    return stored(folder, rows.schema.names)


def stored(folder: pathlib.Path, columns: Sequence[str]) -> OrcFile:
    return OrcFile(open_storage(str(folder)), FileRef("f.orc", 1), SCHEMA, columns, table="t")


def read(file: OrcFile, size: BatchSize = SIZE) -> pa.Table:
    with file:
        return pa.Table.from_batches(list(file.read(0, size)))


def numbers(column: pa.ChunkedArray) -> list[int | None]:
    return list(column.combine_chunks().cast(pa.int64()).to_pylist())


@pytest.mark.parametrize(("zone", "offset"), [(b"CET", HOUR), (b"EST", -5 * HOUR), (b"GMT", 0), (b"UTC", 0)])
def test_rows_are_the_instants_that_were_written(tmp_path: pathlib.Path, zone: bytes, offset: int) -> None:
    rows = read(opened(tmp_path, table_of(WRITTEN, offset), zone))
    assert numbers(rows.column("at")) == WRITTEN
    nested = rows.column("nested").combine_chunks()
    assert nested.field("n").to_pylist() == list(range(len(WRITTEN)))
    assert nested.field("at").cast(pa.int64()).to_pylist() == WRITTEN
    assert rows.column("list").combine_chunks().flatten().cast(pa.int64()).to_pylist() == WRITTEN
    assert rows.column("map").combine_chunks().items.cast(pa.int64()).to_pylist() == WRITTEN
    assert rows.schema.field("at").type == pa.timestamp("us", "UTC")


def test_library_returns_two_instants_as_one(tmp_path: pathlib.Path) -> None:
    """Why the library's own times cannot be turned back into instants."""
    opened(tmp_path, table_of(WRITTEN), b"CET").close()
    times = orc.ORCFile(tmp_path / "f.orc").read(["at"]).column("at").cast(pa.int64()).to_pylist()
    assert times[2] == times[3]


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_footers_of_each_compression_are_read(
    tmp_path: pathlib.Path, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of GMT is read as one of another zone, with an offset of 0."""
    monkeypatch.setattr(orc_zone, "_UTC", frozenset())
    rows = table_of(WRITTEN * 50, 0)
    sink = tmp_path / "f.orc"
    orc.write_table(rows, sink, compression=codec)
    file = stored(tmp_path, rows.schema.names)
    assert file._zone is not None
    assert numbers(read(file).column("at")) == WRITTEN * 50


@pytest.mark.parametrize(("codec", "valid"), [(0, True), (6, False), (7, False)])
def test_unknown_compression_is_an_error(tmp_path: pathlib.Path, codec: int, valid: bool) -> None:
    """6 is BROTLI, which pyarrow knows and does not decompress; 7 is none of ORC's."""
    opened(tmp_path, table_of(WRITTEN), b"CET").close()
    data = (tmp_path / "f.orc").read_bytes()
    end = data.rindex(b"\x10\x00\x18")  # the compression in the postscript
    (tmp_path / "f.orc").write_bytes(data[:end] + bytes([0x10, codec, 0x18]) + data[end + 3 :])
    if valid:
        stored(tmp_path, ("id",)).close()
        return
    refused = "a compression of ORC that pyarrow does not read: table t: base file f.orc: compression BROTLI"
    with pytest.raises(UnsupportedFeature if codec == 6 else CorruptFile, match=refused if codec == 6 else "table t"):
        stored(tmp_path, ("id",))
    with pytest.raises(UnsupportedFeature if codec == 6 else CorruptFile, match=r"f\.orc of table"):
        read_other_footer(open_storage(str(tmp_path)), FileRef("f.orc", 1))


def test_zones_that_are_unknown_or_differ_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UnsupportedFeature, match=r"time zone 'XYZ', which is unknown here: table t: base file f\.orc"):
        opened(tmp_path, table_of(WRITTEN), b"XYZ")
    assert numbers(read(stored(tmp_path, ("id",))).column("id").cast(pa.int64())) == list(range(len(WRITTEN)))
    opened(tmp_path, table_of(WRITTEN * 5000), b"CET", stripe_size=1024, batch_size=1024).close()
    data = (tmp_path / "f.orc").read_bytes()
    assert data.count(b"CET") > 1
    (tmp_path / "f.orc").write_bytes(data.replace(b"CET", b"EST", 1))
    with pytest.raises(CorruptFile, match=r"table t: base file f\.orc.*several time zones: CET, EST"):
        stored(tmp_path, ("at",))


@pytest.mark.parametrize(
    ("name", "hours"), [("GMT+2", -2), ("GMT-05:30", 5.5), ("America/New_York", 5), ("Asia/Kolkata", -5.5)]
)
def test_offset_is_that_of_2015(name: str, hours: float) -> None:
    assert orc_zone._base_offset_s(name, "t") == hours * 3600


def test_stripes_of_a_large_file_are_all_read(tmp_path: pathlib.Path) -> None:
    rows = table_of(WRITTEN * 5000)
    read_rows = read(opened(tmp_path, rows, b"CET", stripe_size=1024, batch_size=1024), BatchSize(1000, 1 << 20))
    assert numbers(read_rows.column("at")) == WRITTEN * 5000


@pytest.mark.parametrize("shift", [0, HOUR - 1, HOUR, HOUR + 1, 2 * 86_400_000_000])
def test_instants_at_the_end_of_the_range_are_read(tmp_path: pathlib.Path, shift: int) -> None:
    """The stored number is in the range of nanoseconds, the instant may be beyond it, or the other way around."""
    ends = [(1 << 63) // 1000 - shift, -(1 << 63) // 1000 + shift + HOUR]
    assert numbers(read(opened(tmp_path, table_of(ends, 0), b"CET")).column("at")) == [end - HOUR for end in ends]
    assert numbers(read(opened(tmp_path, table_of(ends, 0), b"EST")).column("at")) == [end + 5 * HOUR for end in ends]


@pytest.mark.parametrize("cut", [1, 30, 60, 100])
def test_damaged_footers_are_an_error(tmp_path: pathlib.Path, cut: int) -> None:
    opened(tmp_path, table_of(WRITTEN), b"CET").close()
    data = (tmp_path / "f.orc").read_bytes()
    zone = data.rindex(b"CET")
    (tmp_path / "f.orc").write_bytes(data[: zone - cut] + b"\xff" * cut + data[zone:])
    with pytest.raises(CorruptFile, match=r"table t: base file f\.orc"):
        read(stored(tmp_path, ("at",)))
