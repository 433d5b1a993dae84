"""ORC base files: the table's columns and types, in batches."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from penstock.proto.errors import CorruptFile, SchemaMismatch
from penstock.proto.model.files import FileRef
from penstock.proto.model.splits import WholeFile
from penstock.reader.base.decoding.orc import PROCESSES
from penstock.reader.base.orc_file import OrcFile
from penstock.reader.split.emit import BatchSize
from penstock.table.predicate.bounds import ONLY_NULLS, UNKNOWN
from penstock.table.predicate.tree import Column
from penstock.table.schema.avro import parse_record_schema
from penstock.table.storage.filesystem import open_storage

AT = {"type": "long", "logicalType": "timestamp-micros"}
SCHEMA = parse_record_schema(
    json.dumps(
        {
            "type": "record",
            "name": "r",
            "fields": [
                {"name": name, "type": ["null", kind], "default": None}
                for name, kind in (
                    ("id", "string"),
                    ("n", "long"),
                    ("at", AT),
                    ("nested", {"type": "record", "name": "s", "fields": [{"name": "at", "type": ["null", AT]}]}),
                    ("new", "string"),
                )
            ],
        }
    ),
    "test",
)
TIMES = pa.array([1_700_000_000_000_001_000, None, -1_000], pa.timestamp("ns"))
STORED = pa.table(
    {
        "id": ["a", "b", "c"],
        "n": pa.array([1, None, 3], pa.int32()),
        "at": TIMES,
        "nested": pa.StructArray.from_arrays([TIMES], ["at"]),
    }
)
SIZE = BatchSize(rows=2, size_bytes=1 << 20)


def with_long_texts(folder: pathlib.Path) -> bytes:
    """A file that states a length of 16 TiB for each of its ten texts, and its library's process ends at it."""
    lengths = [255, 1, 130, 64, 200, 3, 250, 90, 17, 180]
    orc.write_table(
        pa.table({"id": ["x" * length for length in lengths]}), folder / "f.orc", compression="uncompressed"
    )
    data = bytearray((folder / "f.orc").read_bytes())
    run = data.index(bytes(lengths)) - 2  # after a header of two bytes
    data[run : run + 9] = b"\x3f" + (1 << 44).to_bytes(8, "big")  # ten times the same number of eight bytes
    return bytes(data)


def test_file_that_ends_the_librarys_process_is_damaged(tmp_path: pathlib.Path) -> None:
    """This process goes on, and its next read."""
    (tmp_path / "f.orc").write_bytes(with_long_texts(tmp_path))
    storage = open_storage(str(tmp_path))
    hostile = OrcFile(storage, FileRef("f.orc", 1), SCHEMA, ("id",), table="t")
    with hostile, pytest.raises(CorruptFile, match=r"table t: base file f\.orc .*library of ORC .*with status -"):
        list(hostile.read(0, SIZE))
    with opened(tmp_path) as file:
        assert sum(batch.num_rows for batch in file.read(0, SIZE)) == 3


def test_child_serves_one_read_after_the_other(tmp_path: pathlib.Path) -> None:
    PROCESSES.close()
    with opened(tmp_path) as file:
        for _ in range(2):
            list(file.read(0, SIZE))
    assert len(PROCESSES._idle) == 1


def opened(folder: pathlib.Path, stored: pa.Table = STORED, **settings: Any) -> OrcFile:
    orc.write_table(stored, folder / "f.orc", compression="zlib")
    columns = settings.pop("columns", ("id", "n", "at", "nested", "new"))
    return OrcFile(open_storage(str(folder)), FileRef("f.orc", 1), SCHEMA, columns, table="t", **settings)


def test_rows_have_the_types_of_the_table(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path) as file:
        (group,) = file.row_groups(WholeFile(), SIZE)
        batches = list(group.batches())
    assert [batch.num_rows for batch in batches] == [2, 1]
    rows = pa.Table.from_batches(batches)
    instants = pa.timestamp("us", "UTC")
    assert rows.schema.types == [pa.string(), pa.int64(), instants, pa.struct([("at", instants)]), pa.string()]
    assert rows.column("n").to_pylist() == [1, None, 3]
    assert rows.column("at").cast(pa.int64()).to_pylist() == [1_700_000_000_000_001, None, -1]
    assert rows.column("new").null_count == 3


def test_rows_are_those_that_the_footer_counts(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path) as file:
        assert (file.num_rows, file.num_row_groups, file.rows_of(0)) == (3, 1, 3)
        file._rows = 4
        with pytest.raises(CorruptFile, match="row group 0 lacks 1 of 4 rows"):
            list(file.read(0, SIZE))


def test_bounds_rule_out_nothing_but_missing_columns(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path) as file:
        assert file.row_group_bounds().known(Column(("n",), pa.int64()), 0) == UNKNOWN
        assert file.row_group_bounds().known(Column(("new",), pa.string()), 0) == ONLY_NULLS


def test_keys_must_be_there(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path, key="id") as file:
        keys = file.read_keys(0, SIZE)
        assert keys is not None and keys.to_pylist() == ["a", "b", "c"]
    without = STORED.set_column(0, "id", pa.array(["a", None, "c"]))
    with opened(tmp_path, without, key="id") as file, pytest.raises(CorruptFile, match="a row without id"):
        file.read_keys(0, SIZE)
    with pytest.raises(SchemaMismatch, match="it has no column new to merge by"):
        opened(tmp_path, key="new")


def test_type_change_that_hudi_does_not_make(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SchemaMismatch, match="type change of column 'n'"):
        opened(tmp_path, STORED.set_column(1, "n", pa.array([True, False, None])))


@pytest.mark.parametrize("place", [0.1, 0.2, 0.3])
def test_damage_is_an_error_that_names_the_file(tmp_path: pathlib.Path, place: float) -> None:
    """In a compressed stream: the format has no checksum, and other bytes are another value."""
    rows = pa.table({"id": [f"key {n * 7919 % 1000}" for n in range(1000)], "n": [n * n * 7919 for n in range(1000)]})
    with opened(tmp_path, rows) as file:
        assert sum(batch.num_rows for batch in file.read(0, SIZE)) == 1000
    data = bytearray((tmp_path / "f.orc").read_bytes())
    begin = int(len(data) * place)
    data[begin : begin + 400] = b"Z" * 400
    (tmp_path / "f.orc").write_bytes(data)
    file = OrcFile(open_storage(str(tmp_path)), FileRef("f.orc", 1), SCHEMA, ("id", "n"), table="t")
    with file, pytest.raises(CorruptFile, match=r"table t: base file f\.orc"):
        list(file.read(0, SIZE))


def test_long_rows_are_decoded_a_few_at_a_time(tmp_path: pathlib.Path) -> None:
    rows = pa.table({"id": ["x" * 20_000] * 2000, "n": [1] * 2000})
    with opened(tmp_path, rows, columns=("id", "n")) as file:
        sizes = [batch.num_rows for batch in file.read(0, BatchSize(rows=4096, size_bytes=1 << 20))]
    assert sum(sizes) == 2000 and max(sizes) <= 60


def test_file_that_is_gone(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CorruptFile, match="is gone"):
        OrcFile(open_storage(str(tmp_path)), FileRef("f.orc", 1), SCHEMA, ("id",), table="t")
