"""Which columns a read needs."""

from __future__ import annotations

import gc
import pathlib
import weakref
from typing import Any

import pyarrow as pa
import pytest

from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.proto.model.splits import DeleteMarker, EventTimeOrdering
from penstock.reader.merge.delete_markers import DeleteMarkers
from penstock.reader.split.read_schema import output_schema, read_schema_of
from tests.unit.reader.slices import SliceFolder, rows_of

FIELDS: dict[str, Any] = {"id": "string", "ts": "long", "v": "double", "p": "string", "_hoodie_is_deleted": "boolean"}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> SliceFolder:
    return SliceFolder(tmp_path, FIELDS, EventTimeOrdering(("ts",)))


def test_read_schema_has_only_the_needed_columns(folder: SliceFolder) -> None:
    shape = read_schema_of(folder.scan(columns=("v",)))
    assert (shape.carried, shape.stored) == (("v",), ("v",))
    assert shape.base_columns == ("v", "_hoodie_record_key", "ts")
    assert shape.log_merge_columns == ("_hoodie_record_key", "ts", "_hoodie_is_deleted")


def test_schema_is_kept_for_the_next_split_and_its_scan_is_not(folder: SliceFolder) -> None:
    scan = folder.scan(columns=("v",))
    shape = read_schema_of(scan)
    assert read_schema_of(scan) is shape
    assert read_schema_of(scan, event_time="ts") is not shape
    scan_exists = weakref.ref(scan)
    del scan
    gc.collect()
    assert scan_exists() is None


def test_filters_ranges_and_reports_add_their_columns(folder: SliceFolder) -> None:
    scan = folder.scan(columns=("v",), where="ID = 'x' and v > 1", rows=rows_of("1"))
    assert read_schema_of(scan, event_time="ts").carried == ("v", "id", "_hoodie_commit_time", "ts")


def test_partition_columns_are_not_read(folder: SliceFolder) -> None:
    scan = folder.scan(columns=("p", "v"), partition_fields=("p",))
    assert read_schema_of(scan).stored == ("v",)
    assert read_schema_of(folder.scan(columns=("p",), partition_fields=("p",))).stored == ("_hoodie_record_key",)


def test_commit_time_needs_no_ordering_column(tmp_path: pathlib.Path) -> None:
    assert not read_schema_of(SliceFolder(tmp_path, FIELDS).scan()).ordering
    assert not read_schema_of(SliceFolder(tmp_path, FIELDS, EventTimeOrdering(())).scan()).ordering


def test_output_schema_is_the_tables(folder: SliceFolder) -> None:
    assert output_schema(folder.scan(columns=("v", "id"))) == pa.schema([("v", pa.float64()), ("id", pa.string())])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"columns": ("nope",)}, "no column nope"),
        ({"columns": ()}, "none is asked for"),
        ({"columns": ("v", "v")}, "asked for twice"),
        ({"where": "nope = 1"}, "no column 'nope'"),
    ],
)
def test_columns_that_are_not_there(folder: SliceFolder, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_schema_of(folder.scan(**changed))
    with pytest.raises(ConfigurationError, match="no column nope"):
        read_schema_of(folder.scan(), event_time="nope")


@pytest.mark.parametrize(
    ("names", "fields", "error", "message"),
    [
        (("ts", "gone"), FIELDS, SchemaMismatch, "ordering column 'gone' is not among"),
        (("gone",), FIELDS, SchemaMismatch, "ordering column 'gone' is not among"),
        (("b",), {"b": "bytes"}, SchemaMismatch, "ordering column 'b' of type binary"),
        (("a.b",), FIELDS, SchemaMismatch, "'a.b'"),
    ],
)
def test_tables_that_cannot_be_merged(
    tmp_path: pathlib.Path, names: tuple[str, ...], fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read_schema_of(SliceFolder(tmp_path, fields, EventTimeOrdering(names)).scan())


def test_only_a_boolean_marks_deletes(tmp_path: pathlib.Path) -> None:
    fields = {**FIELDS, "_hoodie_is_deleted": "string"}
    assert read_schema_of(SliceFolder(tmp_path, fields).scan()).deletes == DeleteMarkers()


def test_all_that_marks_deletes_is_read(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, {**FIELDS, "_hoodie_operation": "string"})
    shape = read_schema_of(folder.scan())
    assert shape.deletes == DeleteMarkers(flag="_hoodie_is_deleted", operation="_hoodie_operation")
    marked = read_schema_of(folder.scan(delete_marker=DeleteMarker("id", "x")))
    assert marked.log_merge_columns == ("_hoodie_record_key", "_hoodie_is_deleted", "_hoodie_operation", "id")
    assert read_schema_of(folder.scan(delete_marker=DeleteMarker("gone", "x"))).deletes.custom is None
    nested = SliceFolder(tmp_path, {"v": {"type": "array", "items": "int"}})
    with pytest.raises(ConfigurationError, match="column 'v' marks deletes and is"):
        read_schema_of(nested.scan(delete_marker=DeleteMarker("v", "1.0")))
