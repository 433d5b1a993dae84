"""Fault 18: half-written and empty files, on copies of real tables: ignored unless a completed instant names them.

If one does, they are CORRUPT; an empty completed commit file is first read a second time. A metadata table without a
partition changes no row.
"""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.proto.errors import CorruptFile
from penstock.table.hudi_table import open_table
from penstock.table.storage.filesystem import ArrowStorage

V9, V6 = "A_merge_event_long_v9_h120", "A_merge_event_long_v6_h0150"
BOTH = pytest.mark.parametrize("case", [V9, V6])


def rows(table: pathlib.Path, **options: Any) -> list[str]:
    """The table's rows, sorted."""
    table_rows: pa.Table = penstock.read(table, **options).read_all()
    return sorted(map(repr, table_rows.to_pylist()))


def timeline(table: pathlib.Path) -> pathlib.Path:
    """The folder of the active timeline."""
    folder = table / ".hoodie" / "timeline"
    return folder if folder.is_dir() else table / ".hoodie"


def bases(table: pathlib.Path) -> list[pathlib.Path]:
    """Base files in the partitions of the table."""
    return sorted(path for path in table.rglob("*.parquet") if ".hoodie" not in path.parts)


@BOTH
@pytest.mark.parametrize("share", [0, 0.5, 0.999])
def test_fault_18_half_written_base_file_of_a_completed_instant_is_corrupt(
    golden: Any, tmp_path: pathlib.Path, case: str, share: float
) -> None:
    table = golden.copy(case, tmp_path)
    victim = bases(table)[-1]
    data = victim.read_bytes()
    victim.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(CorruptFile, match=victim.name.replace(".", r"\.")):
        rows(table)


@BOTH
def test_fault_18_half_written_files_outside_completed_instants_are_ignored(
    golden: Any, tmp_path: pathlib.Path, case: str
) -> None:
    table = golden.copy(case, tmp_path)
    expected = rows(table)
    for number, base in enumerate(bases(table)):
        group, token, _ = base.stem.split("_")
        data = base.read_bytes()
        later = "29990101000000000"
        (base.parent / f"{group}_{token}_{later}.parquet").write_bytes(data[: len(data) // 2])
        (base.parent / f"00000000-0000-0000-0000-00000000000{number}-0_{token}_{later}.parquet").touch()
        (base.parent / f".{group}_{later}.log.1_{token}").touch()
        (base.parent / f"{base.name}.tmp").write_bytes(data[:100])
    for metadata in ("on", "off"):
        assert rows(table, metadata=metadata) == expected


@BOTH
def test_fault_18_half_written_file_of_an_inflight_instant_is_ignored(
    golden: Any, tmp_path: pathlib.Path, case: str
) -> None:
    table = golden.copy(case, tmp_path)
    expected = rows(table)
    instant = "29990101000000000"
    for state in ("requested", "inflight"):
        (timeline(table) / f"{instant}.deltacommit.{state}").touch()
        for base in bases(table):
            group, token, _ = base.stem.split("_")
            (base.parent / f"{group}_{token}_{instant}.parquet").write_bytes(base.read_bytes()[:500])
        assert rows(table, metadata="off") == expected
    (timeline(table) / f"{instant}.deltacommit.requested").unlink()
    assert rows(table) == expected


@BOTH
def test_fault_18_empty_completed_commit_file_is_read_twice_then_corrupt(
    golden: Any, tmp_path: pathlib.Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = golden.copy(case, tmp_path)
    victim = sorted(path for path in timeline(table).iterdir() if path.name.endswith(".deltacommit"))[-1]
    content = victim.read_bytes()
    victim.write_bytes(b"")
    os.utime(victim, (1, 1))  # no writer is active any more
    read, seen = ArrowStorage.read_bytes, []

    def counting(storage: ArrowStorage, path: str, limit_bytes: int) -> bytes:
        if path.endswith(victim.name) and "metadata/" not in path:
            seen.append(path)
        return read(storage, path, limit_bytes)

    monkeypatch.setattr(ArrowStorage, "read_bytes", counting)
    opened = open_table(str(table))
    instant = next(item for item in opened.timeline().completed_writes if item.file_name == victim.name)
    with pytest.raises(CorruptFile, match="is empty"):
        opened.commit(instant)
    assert len(seen) == 2
    with pytest.raises(CorruptFile, match="is empty"):
        rows(table)

    seen.clear()

    def late(storage: ArrowStorage, path: str, limit_bytes: int) -> bytes:
        table_rows = counting(storage, path, limit_bytes)
        if len(seen) == 1 and not victim.stat().st_size:
            victim.write_bytes(content)  # the store returns the bytes now
        return table_rows

    monkeypatch.setattr(ArrowStorage, "read_bytes", late)
    assert rows(table) == rows(golden.table(case))


@pytest.mark.parametrize("missing", ["files", "column_stats", ""])
def test_fault_18_missing_partition_of_the_metadata_table_changes_no_row(
    golden: Any, tmp_path: pathlib.Path, missing: str
) -> None:
    case = "A_mdt_all_v9_h120"
    table = golden.copy(case, tmp_path)
    gone = table / ".hoodie" / "metadata" / missing
    assert gone.is_dir()
    shutil.rmtree(gone)
    assert rows(table, metadata="on") == rows(golden.table(case), metadata="off")
    assert rows(table, metadata="on", query="incremental", after="earliest") == rows(
        golden.table(case), metadata="off", query="incremental", after="earliest"
    )
