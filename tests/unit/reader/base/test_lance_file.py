"""Lance base files: the table's columns and types, in batches."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from penstock.proto.errors import ConfigurationError, CorruptFile, OutOfMemory, SchemaMismatch
from penstock.proto.model.files import FileRef
from penstock.proto.model.splits import WholeFile
from penstock.reader.base.decoding import lance
from penstock.reader.base.decoding.lance import PROCESSES
from penstock.reader.base.decoding.processes import DecodingProcesses
from penstock.reader.base.lance_file import LanceFile, _stored
from penstock.reader.split.emit import BatchSize
from penstock.table.predicate.bounds import ONLY_NULLS, UNKNOWN
from penstock.table.predicate.tree import Column
from penstock.table.schema.avro import parse_record_schema
from penstock.table.storage.filesystem import ArrowStorage, open_storage
from tests.lance_files import write_lance

AT = {"type": "long", "logicalType": "timestamp-micros"}


def vector(name: str, dimension: int, element: str, size: int) -> dict[str, Any]:
    words = {"logicalType": "vector", "dimension": dimension, "elementType": element, "storageBacking": "FIXED_BYTES"}
    return {"type": "fixed", "name": name, "size": size, **words}


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
                    ("nested", {"type": "record", "name": "s", "fields": [{"name": "at", "type": ["null", AT]}]}),
                    ("v", vector("v", 2, "FLOAT", 8)),
                    ("d", vector("d", 2, "DOUBLE", 16)),
                    ("new", "string"),
                )
            ],
        }
    ),
    "test",
)
TIMES = pa.array([1_700_000_000_000_001, None, -1], pa.timestamp("us", "UTC"))
STORED = pa.table(
    {
        "id": ["a", "b", "c"],
        "n": pa.array([1, None, 3], pa.int32()),
        "nested": pa.StructArray.from_arrays([TIMES], ["at"]),
        "v": pa.array([[1.5, 2.5], None, [0.0, -1.0]], pa.list_(pa.float32(), 2)),
        "d": pa.array([[1.5, 2.5], [1.0, 2.0], None], pa.list_(pa.float64(), 2)),
    }
)
SIZE = BatchSize(rows=2, size_bytes=1 << 20)


def opened(folder: pathlib.Path, stored: pa.Table = STORED, **settings: Any) -> LanceFile:
    write_lance(folder / "f.lance", stored)
    columns = settings.pop("columns", ("id", "n", "nested", "v", "d", "new"))
    storage = settings.pop("storage", open_storage(str(folder)))
    return LanceFile(storage, FileRef("f.lance", 1), SCHEMA, columns, table="t", **settings)


def test_rows_have_the_types_of_the_table(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path) as file:
        (group,) = file.row_groups(WholeFile(), SIZE)
        batches = list(group.batches())
    assert [batch.num_rows for batch in batches] == [2, 1]
    rows = pa.Table.from_batches(batches)
    assert rows.schema.field("n").type == pa.int64()
    assert rows.schema.field("v").type == pa.list_(pa.field("element", pa.float32()))
    assert rows.column("n").to_pylist() == [1, None, 3]
    assert rows.column("nested").combine_chunks().field("at").cast(pa.int64()).to_pylist() == [
        1_700_000_000_000_001,
        None,
        -1,
    ]
    assert rows.column("v").to_pylist() == [[1.5, 2.5], None, [0.0, -1.0]]
    assert rows.column("d").to_pylist() == [[1.5, 2.5], [1.0, 2.0], None]
    assert rows.column("new").null_count == 3


@pytest.mark.parametrize("columns", [("v",), ("n", "id"), ("new",)])
def test_columns_are_those_that_were_asked_for(tmp_path: pathlib.Path, columns: tuple[str, ...]) -> None:
    with opened(tmp_path, columns=columns) as file:
        rows = pa.Table.from_batches(list(file.read(0, SIZE)))
    assert rows.column_names == list(columns) and rows.num_rows == 3


def test_file_on_another_store_is_copied_and_the_copy_removed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, lake = tmp_path / "copies", tmp_path / "lake"
    copies.mkdir()
    lake.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(copies))
    remote = pafs.SubTreeFileSystem(str(lake), pafs.LocalFileSystem())  # not a LocalFileSystem to Penstock
    with opened(lake, storage=ArrowStorage("s3://bucket/t", remote, "")) as file:
        (copy,) = copies.rglob("*.lance")
        assert copy.read_bytes() == (lake / "f.lance").read_bytes()
        assert [row["id"] for batch in file.read(0, SIZE) for row in batch.to_pylist()] == ["a", "b", "c"]
    assert not list(copies.iterdir())


def test_rows_are_those_that_the_footer_counts(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path) as file:
        assert (file.num_rows, file.num_row_groups, file.rows_of(0)) == (3, 1, 3)
        file._rows = 4
        with pytest.raises(CorruptFile, match=r"cannot read Range\(0\.\.4\)"):
            list(file.read(0, SIZE))


def test_file_without_rows(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path, STORED.slice(0, 0)) as file:
        assert file.num_rows == 0 and not list(file.read(0, SIZE))


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


def test_vector_of_another_dimension(tmp_path: pathlib.Path) -> None:
    longer = pa.array([[1.5, 2.5, 3.5], None, None], pa.list_(pa.float32(), 3))
    with pytest.raises(SchemaMismatch, match="type change of column 'v'"):
        opened(tmp_path, STORED.set_column(3, "v", longer))


def test_only_numbers_of_vectors_are_vectors() -> None:
    kinds = (pa.float32(), pa.float64(), pa.int8(), pa.bool_(), pa.int64(), pa.float16())
    stored = [_stored(pa.field("v", pa.list_(kind, 8))).type for kind in kinds]
    assert stored == [pa.binary(32), pa.binary(64), pa.binary(8), *(pa.list_(kind, 8) for kind in kinds[3:])]


def test_long_rows_are_decoded_a_few_at_a_time(tmp_path: pathlib.Path) -> None:
    rows = pa.table({"id": ["x" * 20_000] * 2000, "n": [1] * 2000})
    with opened(tmp_path, rows, columns=("id", "n")) as file:
        sizes = [batch.num_rows for batch in file.read(0, BatchSize(rows=4096, size_bytes=1 << 20))]
    assert sum(sizes) == 2000 and max(sizes) <= 60


@pytest.mark.parametrize("begin", [0, 100])
def test_damage_is_an_error_that_names_the_file(tmp_path: pathlib.Path, begin: int) -> None:
    """Of the columns' metadata; the library checks no value."""
    write_lance(tmp_path / "f.lance", STORED)
    data = bytearray((tmp_path / "f.lance").read_bytes())
    columns_at = int.from_bytes(data[-40:-32], "little")
    data[columns_at + begin : columns_at + begin + 50] = b"Z" * 50
    (tmp_path / "f.lance").write_bytes(data)
    with pytest.raises(CorruptFile, match=r"table t: base file f\.lance"):
        LanceFile(open_storage(str(tmp_path)), FileRef("f.lance", 1), SCHEMA, ("id", "n"), table="t")


def test_panic_of_the_library_is_an_error(tmp_path: pathlib.Path) -> None:
    write_lance(tmp_path / "f.lance", STORED)
    data = (tmp_path / "f.lance").read_bytes()
    (tmp_path / "f.lance").write_bytes(data.replace(b"timestamp:us", b"timestamq:us"))
    with pytest.raises(CorruptFile, match=r"Unsupported logical type"):
        LanceFile(open_storage(str(tmp_path)), FileRef("f.lance", 1), SCHEMA, ("id", "n"), table="t")


@pytest.mark.parametrize("begin", [400, 20_000])
def test_damage_that_ends_the_library_is_an_error(tmp_path: pathlib.Path, begin: int) -> None:
    """This process and its next read go on."""
    rows = pa.table({"id": [f"key {n}" for n in range(3000)], "n": list(range(3000))})
    data = write_lance(tmp_path / "g.lance", rows)
    (tmp_path / "f.lance").write_bytes(data[:begin] + b"\xff" * 64 + data[begin + 64 :])
    storage = open_storage(str(tmp_path))
    hostile = LanceFile(storage, FileRef("f.lance", 1), SCHEMA, ("id", "n"), table="t")
    with hostile, pytest.raises(CorruptFile, match=r"table t: base file f\.lance .* the library of Lance failed: "):
        list(hostile.read(0, SIZE))
    with LanceFile(storage, FileRef("g.lance", 1), SCHEMA, ("id", "n"), table="t") as file:
        assert sum(batch.num_rows for batch in file.read(0, SIZE)) == 3000


def test_abandoned_read_ends_its_child_at_once(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path) as file:
        list(file.read(0, SIZE))
        batches = file.read(0, BatchSize(rows=1, size_bytes=1 << 20))
        next(batches)
        assert isinstance(batches, Generator)
        inner = batches.gi_frame.f_locals["batches"]
        batches.close()
        assert inner.gi_frame is None


@pytest.mark.parametrize(
    ("program", "kind", "named"),
    [
        ("raise ModuleNotFoundError(\"No module named 'lance'\")", ConfigurationError, r"pip install 'penstock\[l"),
        ("raise ModuleNotFoundError(\"No module named 'lancet'\")", ConfigurationError, "did not start: .*'lancet'"),
        ("import os; os.kill(os.getpid(), 9)", OutOfMemory, "status -9"),
    ],
)
def test_failures_that_are_not_of_the_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, program: str, kind: type[Exception], named: str
) -> None:
    """A program without the library, which starts faster."""
    write_lance(tmp_path / "f.lance", STORED)
    failing = DecodingProcesses(replace(PROCESSES.library, program=program))
    monkeypatch.setattr(lance, "PROCESSES", failing)
    with pytest.raises(kind, match=rf"table t: base file f\.lance.*{named}"):
        LanceFile(open_storage(str(tmp_path)), FileRef("f.lance", 1), SCHEMA, ("id",), table="t")


def test_file_that_is_gone(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CorruptFile, match="is gone"):
        LanceFile(open_storage(str(tmp_path)), FileRef("f.lance", 1), SCHEMA, ("id",), table="t")
