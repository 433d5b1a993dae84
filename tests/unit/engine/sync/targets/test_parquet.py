"""What only Parquet has: manifests, orphans, small files."""

from __future__ import annotations

import fcntl
import json
import pathlib
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.engine.sync.layout import TargetLayout
from penstock.engine.sync.targets import parquet_manifest
from penstock.engine.sync.targets.folders import table_uri
from penstock.engine.sync.targets.parquet import ParquetTarget
from penstock.engine.sync.targets.parquet_files import StoredFiles
from penstock.proto.errors import ConfigurationError, TargetUnavailable
from tests.unit.engine.sync.targets.backends import InParquet
from tests.unit.engine.sync.targets.writes import COLUMNS, LAYOUT, write


@pytest.fixture
def backend(tmp_path: pathlib.Path) -> InParquet:
    return InParquet(tmp_path)


@pytest.fixture
def target(backend: InParquet) -> ParquetTarget:
    return ParquetTarget(str(backend.folder))


def manifest(backend: InParquet) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((backend.folder / "orders" / "manifest.json").read_text())
    return values


def data_files(backend: InParquet) -> set[str]:
    folder = backend.folder / "orders"
    return {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}


def test_files_of_writes_that_did_not_end_are_deleted_at_the_next_start(
    target: ParquetTarget, backend: InParquet
) -> None:
    def rows() -> Any:
        raise OSError("the source failed")
        yield

    target.write(write("p1", [("a", 1, "x")]))
    known = data_files(backend)
    for _ in range(2):
        with pytest.raises(OSError, match="the source failed"):
            target.write(replace(write("p2", expected="p1"), rows=rows()))
    (backend.folder / "orders" / "rows" / "notes.txt").write_text("of someone else")
    assert len(data_files(backend)) > len(known)
    assert backend.rows("orders", COLUMNS) == [("a", 1, "x")]
    ParquetTarget(str(backend.folder)).write(write("p2", expected="p1"))
    assert data_files(backend) == known
    assert (backend.folder / "orders" / "rows" / "notes.txt").exists()


def test_many_writes_have_few_files_and_the_same_rows(target: ParquetTarget, backend: InParquet) -> None:
    position, expected = None, {}
    for number in range(140):
        key, old = f"k{number % 50}", f"k{(number * 7) % 50}"
        expected.pop(old, None)
        expected[key] = (key, 1, str(number))
        target.write(write(f"p{number}", [(key, 1, str(number))], [(key, 1), (old, 1)], expected=position))
        position = f"p{number}"
    assert sorted(backend.rows("orders", COLUMNS)) == sorted(expected.values())
    now = manifest(backend)
    assert len(now["rows"]) < 40
    assert len(now["removed"]) < 40
    listed = {one["file"] for kind in ("rows", "removed") for one in now[kind]}
    assert data_files(backend) == listed | set(now["obsolete"])


def test_files_of_the_previous_manifest_remain_after_a_restart(target: ParquetTarget, backend: InParquet) -> None:
    target.write(write("p1", [("a", 1, "x")]))
    before = data_files(backend)
    target.write(replace(write("p2", [("b", 1, "x")], expected="p1"), replaces=True))
    assert before < data_files(backend), "a reader of the previous manifest can end"
    target.write(replace(write("p3", [("c", 1, "x")], expected="p2"), replaces=True))
    assert not before & data_files(backend)
    assert backend.rows("orders", COLUMNS) == [("c", 1, "x")]


def test_locked_table_is_unavailable(target: ParquetTarget, backend: InParquet) -> None:
    target.write(write("p1"))
    with (backend.folder / "orders" / ".lock").open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(TargetUnavailable, match="another process"):
            target.write(write("p2", expected="p1"))
        target.write(write("p1", table="other"))
    target.write(write("p2", expected="p1"))


def test_read_only_folder_is_unavailable(backend: InParquet, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetUnavailable, match="file"):
        ParquetTarget(str(tmp_path / "file")).write(write("p1"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no JSON", "not one of penstock sync"),
        ("[]", "not one of penstock sync"),
        ('{"format": 2}', "format 2, expected 1"),
    ],
)
def test_other_manifest_is_refused(target: ParquetTarget, backend: InParquet, text: str, expected: str) -> None:
    target.write(write("p1"))
    (backend.folder / "orders" / "manifest.json").write_text(text)
    for call in (lambda: target.stored("orders"), lambda: target.write(write("p2", expected="p1"))):
        with pytest.raises(ConfigurationError, match=expected):
            call()


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "rows/../../x.parquet", 5, "rows/1.parquet"])
def test_paths_outside_of_the_folder_are_refused(target: ParquetTarget, backend: InParquet, path: object) -> None:
    """The files of `obsolete` are deleted."""
    target.write(write("p1"))
    values = manifest(backend)
    values["obsolete"] = [path]
    (backend.folder / "orders" / "manifest.json").write_text(json.dumps(values))
    with pytest.raises(ConfigurationError, match="not the path"):
        target.write(write("p2", expected="p1"))


def test_manifest_is_read_back() -> None:
    file = parquet_manifest.DataFile(f"rows/1-{'0' * 32}.parquet", "/lake/é", 5, 6, 7)
    text = parquet_manifest.Manifest(
        write=9, layout=LAYOUT, positions={"/lake/é": "p"}, rows=(file,), removed=(), obsolete=(file.file,)
    )
    assert parquet_manifest.parsed_manifest(parquet_manifest.manifest_text(text).encode()) == text


def test_large_files_are_not_written_again() -> None:
    small = [parquet_manifest.DataFile(f"rows/{n}", "s", 1, 1) for n in range(32)]
    large = [replace(one, bytes=1 << 30) for one in small]
    others = [replace(one, source="t") for one in small[:31]]
    assert parquet_manifest.combinable([*large, *others]) == []
    assert parquet_manifest.combinable([*large, *small, *others]) == [small]


def test_stored_files_read_what_they_wrote(tmp_path: pathlib.Path) -> None:
    """The class for object stores, over a local file system."""
    files = StoredFiles((tmp_path / "a b").as_uri())
    (tmp_path / "a b" / "rows").mkdir(parents=True)
    batch = pa.record_batch({"a": pa.array([1, 2])})
    rows, size = files.write("rows/1.parquet", batch.schema, iter([batch, batch]))
    assert (rows, size) == (4, (tmp_path / "a b" / "rows" / "1.parquet").stat().st_size)
    assert [one.num_rows for one in files.batches("rows/1.parquet")] == [4]
    assert files.read("manifest.json") is None
    with files.locked():
        files.replace("manifest.json", b"1")
        files.replace("manifest.json", b"2")
    assert files.read("manifest.json") == b"2"
    assert files.list("rows") == ["rows/1.parquet"]
    assert files.list("removed") == []
    for _ in range(2):
        files.delete("rows/1.parquet")
    assert files.list("rows") == []


@pytest.mark.parametrize("name", ["_write", ""])
def test_names_of_columns_that_files_cannot_have_are_refused(target: ParquetTarget, name: str) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        target.check_columns("orders", pa.schema([("a", pa.int32()), (name, pa.int32())]))


def test_query_string_stays_at_the_end_of_a_uri() -> None:
    assert table_uri("s3://b/lake/?region=x&scheme=http", "a b") == "s3://b/lake/a%20b?region=x&scheme=http"
    assert table_uri("s3://b/lake", "t") == "s3://b/lake/t"


@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_names_of_tables_that_are_not_folders_are_refused(target: ParquetTarget, name: str) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        target.check_columns(name, COLUMNS)


def test_keys_of_all_rows_together_may_be_longer_than_two_gib(
    target: ParquetTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays of texts have 32-bit offsets, and the check for repeated keys joins the keys of all files."""
    joined: list[pa.Schema] = []
    sort_indices = pc.sort_indices

    def sorted_(table: pa.Table, **options: Any) -> Any:
        joined.append(table.schema)
        return sort_indices(table, **options)

    monkeypatch.setattr(pc, "sort_indices", sorted_)
    layout = TargetLayout(pa.schema([("s", pa.string()), ("b", pa.binary()), ("n", pa.int64())]), ("s", "b", "n"))
    target.write(write("p1", [("x", b"\0", 1), ("x", b"\1", 1)], layout=layout))
    assert target.repeated_key("orders", "orders") == ""
    target.write(write("p2", [("x", b"\1", 1), ("y", None, 1)], layout=layout, expected="p1"))
    assert target.repeated_key("orders", "orders") == "s=x, b=b'\\x01', n=1"
    assert [one.types[:3] for one in joined] == [[pa.large_string(), pa.large_binary(), pa.int64()]] * 2
