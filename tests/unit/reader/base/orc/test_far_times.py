"""Timestamps in ORC before 1677 and after 2262, which pyarrow refuses."""

from __future__ import annotations

import io
import json
import pathlib
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from penstock.proto.errors import CorruptFile, PenstockError, SchemaMismatch
from penstock.proto.model.files import FileRef
from penstock.reader.base.orc import far_times as orc_far_times
from penstock.reader.base.orc_file import OrcFile
from penstock.reader.split.emit import BatchSize
from penstock.table.schema.avro import parse_record_schema
from penstock.table.storage.filesystem import open_storage

AT = {"type": "long", "logicalType": "timestamp-micros"}
NULLABLE = ["null", AT]
KINDS: list[tuple[str, Any]] = [
    ("id", "string"),
    ("at", AT),
    ("n", "long"),
    (
        "nested",
        {
            "type": "record",
            "name": "s",
            "fields": [{"name": "at", "type": NULLABLE}, {"name": "n", "type": ["null", "long"]}],
        },
    ),
    ("list", {"type": "array", "items": NULLABLE}),
    ("map", {"type": "map", "values": NULLABLE}),
]
FIELDS = [{"name": name, "type": ["null", kind], "default": None} for name, kind in KINDS]
SCHEMA = parse_record_schema(json.dumps({"type": "record", "name": "r", "fields": FIELDS}), "test")
NAMES = [name for name, _ in KINDS]
SIZE = BatchSize(rows=1000, size_bytes=1 << 20)
HOUR = 3_600_000_000
DAY = 24 * HOUR


def micros(year: int, month: int = 1, day: int = 1, more: int = 0) -> int:
    return (datetime(year, month, day, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    ) + more


FIRST, LAST = micros(1), micros(9999, 12, 31, DAY - 1000)
EDGES = [-9_223_372_037_000_000, -9_223_372_036_854_776, -9_223_372_036_854_775, -9_223_372_036_000_000]
EDGES += [9_223_372_036_854_775, 9_223_372_036_854_776, 9_223_372_037_000_000]
FAR: list[int | None] = [FIRST, None, micros(1500), *EDGES, -1, -1_000_001, 0, 1, micros(2024), micros(2300, 1, 1, 1)]
FAR += [LAST, LAST + 999, None]
RUNS = [
    *[LAST] * 7,
    *[None] * 5,
    *[micros(2300, 1, 1, n * DAY) for n in range(600)],
    *[micros(2300, 1, 1, n * n * HOUR + n % 7) for n in range(600)],
    *[micros(1600, 1, 1, n * 7919 % 3001 * 100 * DAY + n * 31 % 1000) for n in range(600)],
    *[micros(2024, 1, 1, n * 7919 % 97 * 1_000_000) if n % 100 else LAST for n in range(600)],
]
"""Runs of every kind of version 2: short repeat, delta (also of the same difference), direct, patched base."""


def table_of(values: list[int | None], offset: int = 0, zone: str | None = None) -> pa.Table:
    times = pa.array([None if value is None else value + offset for value in values], pa.timestamp("us", zone))
    count = len(values)
    twice = pa.concat_arrays([times, times])
    places = pa.array([min(2 * count, max(0, 3 * n - 7)) for n in range(count)] + [2 * count], pa.int32())
    hidden = pa.array([n % 3 == 0 for n in range(count)])
    numbers = pa.array(range(count), pa.int64())
    return pa.table(
        {
            "id": [str(n) for n in range(count)],
            "at": times,
            "n": numbers,
            "nested": pa.StructArray.from_arrays([times, numbers], ["at", "n"], mask=hidden),
            "list": pa.ListArray.from_arrays(places, twice),
            "map": pa.MapArray.from_arrays(pa.array(range(count + 1), pa.int32()), pa.array(["k"] * count), times),
        }
    )


def stored(folder: pathlib.Path, columns: list[str] = NAMES) -> OrcFile:
    return OrcFile(open_storage(str(folder)), FileRef("f.orc", 1), SCHEMA, columns, table="t")


def rows_of(file: OrcFile, size: BatchSize = SIZE) -> pa.Table:
    with file:
        batches = list(file.read(0, size))
        for batch in batches:
            batch.validate()
        return pa.Table.from_batches(batches)


def as_integers(kind: pa.DataType) -> pa.DataType:
    """The type with timestamps as their numbers, which Python has for each."""
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, as_integers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(as_integers(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, as_integers(field.type)) for field in kind])
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def values(rows: pa.Table) -> dict[str, list[Any]]:
    return {name: rows.column(name).cast(as_integers(rows.schema.field(name).type)).to_pylist() for name in NAMES}


@pytest.mark.parametrize("version", ["0.11", "0.12"])
@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_written_times_are_read(tmp_path: pathlib.Path, codec: str, version: str) -> None:
    """Encodings of version 1 and 2."""
    written = table_of(FAR + RUNS)
    orc.write_table(written, tmp_path / "f.orc", compression=codec, file_version=version)
    with pytest.raises(pa.ArrowInvalid, match="out of range for nanosecond resolution"):
        orc.read_table(tmp_path / "f.orc")
    rows = rows_of(stored(tmp_path))
    assert rows.schema.field("at").type == pa.timestamp("us", "UTC")
    assert values(rows) == values(written)


def test_times_of_a_writer_in_another_zone_are_read(tmp_path: pathlib.Path) -> None:
    sink = io.BytesIO()
    times = [value for value in FAR if value is None or not -HOUR <= value < 0]  # of GMT, which rounds at 1970
    orc.write_table(table_of(times, HOUR), sink, compression="uncompressed")
    (tmp_path / "f.orc").write_bytes(sink.getvalue().replace(b"GMT", b"CET"))
    assert values(rows_of(stored(tmp_path)))["at"] == values(table_of(times))["at"]


def test_instants_of_other_writers_are_read(tmp_path: pathlib.Path) -> None:
    """The type TIMESTAMP_INSTANT, which Hudi does not write."""
    written = table_of(FAR, 0, "UTC")
    orc.write_table(written, tmp_path / "f.orc")
    assert pa.types.is_timestamp(kind := orc.ORCFile(tmp_path / "f.orc").schema.field("at").type) and kind.tz
    assert values(rows_of(stored(tmp_path))) == values(written)


@pytest.mark.parametrize("place", [0, 15, 16, 17, 1023, 1024, 4000, 5999])
@pytest.mark.parametrize("rows", [97, 5000])
def test_each_row_is_yielded_once(tmp_path: pathlib.Path, place: int, rows: int) -> None:
    """Rows before the first far timestamp are yielded before it is found. The file has several stripes."""
    times: list[int | None] = [n * DAY for n in range(6000)]
    times[place] = LAST
    written = table_of(times).select(["id", "at"])
    orc.write_table(written, tmp_path / "f.orc", stripe_size=1024, batch_size=1024)
    assert orc.ORCFile(tmp_path / "f.orc").nstripes > 3
    read = rows_of(stored(tmp_path, ["id", "at"]), BatchSize(rows, 1 << 20))
    assert read.column("id").to_pylist() == written.column("id").to_pylist()
    assert read.column("at").cast(pa.int64()).to_pylist() == times


def test_other_columns_are_decoded_once(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a far timestamp was found by a read of another column."""
    orc.write_table(table_of(FAR), tmp_path / "f.orc")
    with stored(tmp_path) as file:
        assert sum(batch.num_rows for batch in file.read(0, SIZE)) == len(FAR)
        calls: list[object] = []
        monkeypatch.setattr(orc_far_times.FarTimes, "batches", lambda *given: calls.append(given))
        assert sum(batch.num_rows for batch in file.read(0, SIZE, ("id", "n"))) == len(FAR)
        assert not calls


def test_long_lists_are_read_a_few_rows_at_a_time(tmp_path: pathlib.Path) -> None:
    times = pa.array([LAST - n * DAY for n in range(100_000)], pa.timestamp("us"))
    lists = pa.ListArray.from_arrays(pa.array(range(0, 100_001, 10_000), pa.int32()), times)
    orc.write_table(pa.table({"id": [str(n) for n in range(10)], "list": lists}), tmp_path / "f.orc")
    with stored(tmp_path, ["id", "list"]) as file:
        batches = list(file.read(0, BatchSize(1000, 200_000)))
    assert max(batch.num_rows for batch in batches) <= 2
    read = pa.concat_arrays([batch.column("list").flatten() for batch in batches])
    assert read.cast(pa.int64()).equals(times.cast(pa.int64()))


def test_nanoseconds_are_refused(tmp_path: pathlib.Path) -> None:
    """As in a file without far timestamps. pyarrow writes nanoseconds of near times only."""
    near = pa.array([1_700_000_000_000_000_001, None], pa.timestamp("ns"))
    orc.write_table(pa.table({"id": ["a", "b"], "at": near}), tmp_path / "f.orc")
    with stored(tmp_path, ["id", "at"]) as file:
        with pytest.raises(SchemaMismatch, match="column 'at'"):
            list(file.read(0, SIZE))
        file._far = file._far_times()
        with pytest.raises(SchemaMismatch, match=r"table t: base file f\.orc: column 'at' has timestamps before 1677"):
            list(file.read(0, SIZE))


@pytest.mark.parametrize("second", [1 << 62, -(1 << 62), (1 << 63) // 1_000_000, -(1 << 63) // 1_000_000])
def test_time_beyond_microseconds_is_damage(tmp_path: pathlib.Path, second: int) -> None:
    rows = pa.table({"id": ["a"], "at": pa.array([second], pa.timestamp("s"))})
    orc.write_table(rows, tmp_path / "f.orc")
    with stored(tmp_path, ["id", "at"]) as file, pytest.raises(CorruptFile, match="out of range for microseconds"):
        list(file.read(0, SIZE))


@pytest.mark.parametrize("codec", ["uncompressed", "zlib"])
def test_damaged_streams_are_an_error_or_other_rows(tmp_path: pathlib.Path, codec: str) -> None:
    """One byte in 13 is changed: no other kind of error, no more rows, nothing that `validate` refuses."""
    written = table_of(FAR * 3).select(["id", "at"])
    sink = io.BytesIO()
    orc.write_table(written, sink, compression=codec)
    data, rng, failed = sink.getvalue(), random.Random(28), 0
    for place in range(3, len(data) - 25, 13):
        changed = bytearray(data)
        changed[place] ^= rng.randrange(1, 256)
        (tmp_path / "f.orc").write_bytes(bytes(changed))
        try:
            assert rows_of(stored(tmp_path, ["id", "at"])).num_rows == len(written)
        except PenstockError as error:
            failed += 1
            assert str(error)
    assert failed > 3


def test_parts_that_do_not_fit_are_damage(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two views of a file have the same rows and nulls, unless one is decoded wrongly."""
    orc.write_table(table_of(FAR), tmp_path / "f.orc")
    read_orc = orc_far_times.read_orc

    def shorter(source: pa.NativeFile, columns: list[str], rows: int, most: int | None) -> Iterator[pa.RecordBatch]:
        for batch in read_orc(source, columns, rows, most):
            yield batch.slice(1) if pa.types.is_timestamp(batch.schema.field("at").type) else batch

    monkeypatch.setattr(orc_far_times, "read_orc", shorter)
    with stored(tmp_path) as file, pytest.raises(CorruptFile, match="another number of seconds than of nanoseconds"):
        list(file.read(0, SIZE))
