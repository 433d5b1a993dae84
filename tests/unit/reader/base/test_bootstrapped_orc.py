"""A skeleton and its source in ORC: stripes of other sizes, and a source whose writer was outside of UTC."""

from __future__ import annotations

import io
import pathlib

import pyarrow as pa
import pytest
from pyarrow import orc

from penstock.proto.errors import CorruptFile
from penstock.proto.model.splits import FileRef, WholeFile
from penstock.reader.base.bootstrapped_file import IN_SKELETON, BootstrappedFile
from penstock.reader.base.orc_file import OrcFile
from penstock.reader.split.emit import BatchSize
from penstock.table.schema.avro import parse_record_schema
from penstock.table.storage.filesystem import open_storage

KEY = "_hoodie_record_key"
RECORD = parse_record_schema(
    """{"type": "record", "name": "r", "fields": [
        {"name": "_hoodie_record_key", "type": ["null", "string"]},
        {"name": "n", "type": ["null", "long"]},
        {"name": "text", "type": ["null", "string"]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]}
    ]}"""
)
COLUMNS = ("n", KEY, "at", "text")
ROWS = 20_000
HOUR = 3_600_000_000
WINTER = 1_705_276_800_000_000
"""2024-01-15 in microseconds: CET is one hour ahead."""


def opened(
    folder: pathlib.Path, *, zone: bytes = b"GMT", moved: int = 0, skeleton_rows: int = ROWS
) -> BootstrappedFile:
    """Row i of the skeleton has key `k<i>`. Row i of the source has n = i + moved, and the instant WINTER + i that a
    writer in `zone` wrote (pyarrow writes in GMT)."""
    numbers = range(moved, moved + ROWS)
    offset = HOUR if zone == b"CET" else 0
    times = pa.array([WINTER + number + offset for number in numbers], pa.timestamp("us")).cast(pa.timestamp("ns"))
    source = pa.table({"n": numbers, "text": [f"text {number}" * 20 for number in numbers], "at": times})
    orc.write_table(pa.table({KEY: [f"k{i}" for i in range(skeleton_rows)]}), folder / "skeleton.orc")
    sink = io.BytesIO()
    orc.write_table(source, sink, compression="uncompressed", stripe_size=1 << 16)
    data = sink.getvalue()
    assert data.count(b"GMT") > 1, "several stripes"
    (folder / "source.orc").write_bytes(data.replace(b"GMT", zone))
    storage = open_storage(str(folder))

    def part(name: str, own: list[str], key: str) -> OrcFile:
        return OrcFile(storage, FileRef(f"{name}.orc", 1), RECORD, own, table="t", key=key)

    skeleton = part("skeleton", [name for name in COLUMNS if name in IN_SKELETON], KEY)
    return BootstrappedFile(skeleton, part("source", [n for n in COLUMNS if n not in IN_SKELETON], ""), COLUMNS, KEY)


def rows_of(file: BootstrappedFile, batch: int) -> pa.Table:
    size = BatchSize(batch, 1 << 20)
    with file:
        return pa.Table.from_batches([b for group in file.row_groups(WholeFile(), size) for b in group.batches()])


def is_joined(rows: pa.Table) -> bool:
    """Whether each row has the columns of one position."""
    numbers = rows["n"].to_pylist()
    times = rows["at"].combine_chunks().cast(pa.int64()).to_pylist()
    return rows[KEY].to_pylist() == [f"k{n}" for n in numbers] and times == [WINTER + n for n in numbers]


@pytest.mark.parametrize("zone", [b"GMT", b"CET"])
@pytest.mark.parametrize("batch", [77, 4096, 100_000])
def test_rows_have_the_columns_of_one_position(tmp_path: pathlib.Path, zone: bytes, batch: int) -> None:
    rows = rows_of(opened(tmp_path, zone=zone), batch)
    assert rows.num_rows == ROWS and rows.column_names == list(COLUMNS)
    assert is_joined(rows) and rows.schema.field("at").type == pa.timestamp("us", "UTC")


def test_the_check_of_the_join_detects_a_shift(tmp_path: pathlib.Path) -> None:
    assert not is_joined(rows_of(opened(tmp_path, moved=1), 4096))


def test_another_number_of_rows_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CorruptFile, match=str(ROWS - 1)):
        rows_of(opened(tmp_path, skeleton_rows=ROWS - 1), 4096)
