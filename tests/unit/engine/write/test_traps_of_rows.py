"""How a writer damages a table through its rows and their schema, and that Penstock's does not.

The numbers are those of the traps that real Hudi showed to a prototype; `test_traps_of_files`, `test_traps_of_timeline`
and `tests/interop/test_write_traps.py` have the others.
"""

from __future__ import annotations

import datetime
import io
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.proto.errors import PenstockError, SchemaMismatch
from tests.unit.engine.write.recorded_storage import (
    FIRST,
    SCHEMA,
    SECOND,
    Kind,
    Lake,
    Row,
    arrow,
    copy_on_write,
    each_kind,
)


@each_kind
def test_trap_20_each_commit_has_the_schema_of_its_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """Readers take the newest commit's schema: an older one hides the columns added since."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    wider = arrow(SECOND).append_column("added", pa.array([1.5, None, 2.5]))
    monkeypatch.setattr("tests.unit.engine.write.recorded_storage.arrow", lambda rows, deleted: wider)
    instants = [lake.write(SECOND).instant]
    monkeypatch.undo()
    narrow = [("k3", 9, "oslo")]
    instants += [penstock.write(str(lake.path), arrow(narrow), name).instant for name in ("upsert", "delete", "insert")]
    instants.append(penstock.write(str(lake.path), arrow([]), "insert_overwrite_table").instant)
    table = lake.table()
    for instant in instants:
        found = table.timeline().completed_write(instant)
        assert found is not None
        schema = json.loads(table.commit(found).schema_json)
        assert [field["name"] for field in schema["fields"]] == [*SCHEMA.names, "added"]


@each_kind
@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite"])
def test_trap_21_marked_delete_is_no_row(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, operation: str
) -> None:
    """Readers do not look at the marker of a row in a base file: the deleted row would be visible."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write([("a", 1, "oslo"), ("b", 1, "oslo"), ("c", 1, "riga")], operation, deleted=["b", "c"])
    assert lake.rows() == [("a", 1, "oslo")]
    if operation != "bulk_insert":
        lake.write([("d", 1, "oslo"), ("e", 1, "oslo")], operation, deleted=["e"])
        assert [row[0] for row in lake.rows()] == (["d"] if operation == "insert_overwrite" else ["a", "d"])
    for file in lake.path.rglob("*.parquet"):
        assert not any(pq.read_table(file)["_hoodie_is_deleted"].to_pylist())


@each_kind
@pytest.mark.parametrize("operation", ["upsert", "insert"])
def test_trap_23_null_ordering_value_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, operation: str
) -> None:
    """Hudi's reader fails on it, also of a delete."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    before = lake.everything()
    for deleted in (False, True):
        rows = pa.Table.from_pylist([{"id": "x", "seq": None, "city": "oslo", "_hoodie_is_deleted": deleted}], SCHEMA)
        with pytest.raises(SchemaMismatch, match="ordering column 'seq' is null"):
            penstock.write(str(lake.path), rows, operation)
    assert lake.everything() == before


@copy_on_write
def test_trap_26_copied_rows_keep_their_meta_columns(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """With a new commit time incremental readers get the whole file as changed."""
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    rows: list[Row] = [(f"k{n}", 5, "oslo") for n in range(20)]
    first = lake.write(rows)
    names = [f"_hoodie_{name}" for name in ("commit_time", "commit_seqno", "record_key", "partition_path")]
    meta = ["id", *names]

    def stored() -> dict[str, dict[str, str]]:
        found = penstock.read(str(lake.path), columns=["id", *names, "_hoodie_file_name"]).read_all().to_pylist()
        return {row["id"]: row for row in found}

    before = stored()
    second = lake.write([("k3", 6, "oslo"), ("k4", 1, "oslo")])
    after = stored()
    assert {name: after["k3"][name] == before["k3"][name] for name in meta} == {
        "id": True,
        "_hoodie_commit_time": False,
        "_hoodie_commit_seqno": False,
        "_hoodie_record_key": True,
        "_hoodie_partition_path": True,
    }
    assert after["k3"]["_hoodie_commit_time"] == second.instant
    for key in before.keys() - {"k3"}:  # k4 too: the stored row is newer
        assert [after[key][name] for name in meta] == [before[key][name] for name in meta]
    same_file = [key for key in before if after[key]["_hoodie_file_name"] == after["k3"]["_hoodie_file_name"]]
    assert len(same_file) > 1 and after["k3"]["_hoodie_file_name"] != before["k3"]["_hoodie_file_name"]
    seen = first.completion_time
    changes = penstock.read(str(lake.path), query="incremental", after=seen).read_all()
    assert changes["id"].to_pylist() == ["k3"]


ODD = pa.table(
    {
        "id": pa.array(["a", "b"], pa.large_string()),
        "seq": pa.array([1, 2], pa.uint16()),
        "city": pa.array(["oslo", "oslo"]).dictionary_encode(),
        "at": pa.array([1_700_000_000_000_001_000, None], pa.timestamp("ns", "UTC")),
        "local": pa.array([1_700_000_000_000_001, None], pa.timestamp("us")),
        "price": pa.array([None, 7], pa.decimal128(10, 2)),
    }
)


@each_kind
def test_trap_33_parquet_has_the_forms_that_hudi_reads(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """No INT96, no nanoseconds, no unsigned integers; and pyarrow keeps the footer's entries."""
    lake = Lake(tmp_path / "t", kind, monkeypatch, schema=ODD.schema)
    for _ in range(2):
        penstock.write(str(lake.path), ODD)
    forms = {
        "id": ("BYTE_ARRAY", "String"),
        "seq": ("INT32", "None"),
        "city": ("BYTE_ARRAY", "String"),
        "at": ("INT64", "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"),
        "local": ("INT64", "Timestamp(isAdjustedToUTC=false, timeUnit=microseconds"),
        "price": ("FIXED_LEN_BYTE_ARRAY", "Decimal(precision=10, scale=2)"),
    }
    files = list(lake.path.rglob("*.parquet"))
    blocks = [data[data.index(b"PAR1") :] for data in (file.read_bytes() for file in lake.path.rglob("*.log.*"))]
    assert bool(blocks) == (kind[1] == "merge_on_read")
    for source in [*files, *(io.BytesIO(block[: block.rindex(b"PAR1") + 4]) for block in blocks)]:
        metadata = pq.read_metadata(source)
        schema = metadata.schema
        columns = {schema.column(place).name: schema.column(place) for place in range(len(schema))}
        for name, (physical, logical) in forms.items():
            assert columns[name].physical_type == physical
            assert str(columns[name].logical_type).startswith(logical)
        assert b"parquet.avro.schema" in metadata.metadata and b"ARROW:schema" not in metadata.metadata
    read = penstock.read(str(lake.path), columns=["id", "at"]).read_all().to_pylist()
    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, 1, datetime.UTC)
    assert sorted((row["id"], row["at"]) for row in read) == [("a", moment), ("b", None)]
    finer = ODD.set_column(3, "at", pa.array([1_700_000_000_000_001_001, None], pa.timestamp("ns", "UTC")))
    with pytest.raises(PenstockError, match="does not fit its type"):
        penstock.write(str(lake.path), finer)
