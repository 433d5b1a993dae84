"""Full reads of tables with rare features: the rows that Hudi 1.2.0 returned (`tests/fixtures/exotics`)."""

from __future__ import annotations

import math
import pathlib
import re
import shutil
import zipfile

import pytest

import penstock
from penstock.proto.errors import CorruptFile, PenstockError, TableError

TABLES = pathlib.Path(__file__).parents[2] / "fixtures" / "exotics"
VECTORS = [
    ("0", 1, [0.0, 2.5, -0.0], [0.0, -1.0], [0, -128, 127, 0]),
    ("1", 2, [1.0, 3.5, math.nan], [1e300, -2.0], [1, -128, 127, 0]),
    ("2", 3, [2.0, 4.5, -0.0], None, [2, -128, 127, 0]),
    ("3", 2, None, [3e300, -2.0], [3, -128, 127, 0]),
]
FIRST = [("1", 10, "a"), ("2", 11, "a"), ("3", 20, "b")]
SECOND = [("1", 30, "a"), ("2", 31, "a"), ("3", 20, "b"), ("4", 32, "a")]
THIRD = [*SECOND, ("7", 40, "b"), ("8", 41, "b"), ("9", 50, "b")]


def unpacked(name: str, folder: pathlib.Path) -> pathlib.Path:
    with zipfile.ZipFile(TABLES / f"{name}.zip") as archive:
        archive.extractall(folder)
    (table,) = folder.iterdir()
    return table


def rows(table: pathlib.Path, *columns: str, **options: str) -> list[tuple[object, ...]]:
    result = penstock.read(str(table), columns=columns, **options).read_all().to_pylist()
    return sorted(tuple(row.values()) for row in result)


@pytest.mark.parametrize("name", ["vectors_avro", "vectors_parquet"])
class TestVectors:
    def test_rows(self, name: str, tmp_path: pathlib.Path) -> None:
        table = unpacked(name, tmp_path)
        assert repr(rows(table, "id", "ts", "f", "d", "i")) == repr(VECTORS), "by text: NaN, and the sign of zero"
        result = penstock.read(str(table)).read_all().schema
        assert [str(result.field(column).type.value_type) for column in "fdi"] == ["float", "double", "int8"]

    def test_parts(self, name: str, tmp_path: pathlib.Path) -> None:
        table = unpacked(name, tmp_path)
        assert rows(table, "id", "d", where="d IS NOT NULL AND id > '0'") == [(r[0], r[3]) for r in VECTORS[1::2]]
        assert rows(table, "id", "f", query="read_optimized")[4] == ("4", [4.0, 2.5, -0.0])
        after = max(re.match(r"\d+_(\d+)", file.name)[1] for file in table.rglob("timeline/*commit"))  # type: ignore[index]
        assert rows(table, "id", query="incremental", after=after) == []
        changed = rows(table, "id", "i", query="cdc", after="earliest")
        assert ("4", [4, -128, 127, 0]) in changed and len(changed) == 12

    def test_images(self, name: str, tmp_path: pathlib.Path) -> None:
        table = unpacked(name, tmp_path)
        result = penstock.read(str(table), query="cdc", after="earliest", cdc_format="hudi").read_all()
        images = [text for text in result.column("after").to_pylist() if text and '"id":"1"' in text]
        assert images and all('"f":[1.0,' in text and '"i":[1,-128,127,0]' in text for text in images)


@pytest.mark.parametrize("name", ["registered_v9", "registered_v6"])
class TestFilesOfOtherWriters:
    def test_rows(self, name: str, tmp_path: pathlib.Path) -> None:
        table = unpacked(name, tmp_path)
        assert rows(table) == THIRD == rows(table, query="read_optimized")
        assert rows(table, "id", where="n > 31") == [("4",), ("7",), ("8",), ("9",)]
        assert rows(table, "id", where="p = 'b'") == [("3",), ("7",), ("8",), ("9",)]

    def test_time_travel_sees_replaced_files(self, name: str, tmp_path: pathlib.Path) -> None:
        table = unpacked(name, tmp_path)
        instants = sorted({file.name[:17] for file in table.rglob("*.replacecommit")})
        assert [rows(table, as_of=instant) for instant in instants] == [FIRST, SECOND, THIRD]

    def test_missing_file_is_an_error(self, name: str, tmp_path: pathlib.Path) -> None:
        table = unpacked(name, tmp_path)
        (table / "b/bucket-0/f1.parquet").unlink()
        with pytest.raises(PenstockError, match=r"b/bucket-0/f1\.parquet"):
            rows(table)

    def test_external_files_are_listed_only_by_the_metadata_table(self, name: str, tmp_path: pathlib.Path) -> None:
        table = unpacked(name, tmp_path)
        with pytest.raises(TableError, match="files of another writer: only its metadata table"):
            rows(table, metadata="off")
        shutil.rmtree(table / ".hoodie/metadata")
        with pytest.raises(TableError, match="files of another writer: only its metadata table"):
            rows(table)

    def test_commit_with_a_path_outside_the_table_is_corrupt(self, name: str, tmp_path: pathlib.Path) -> None:
        table = unpacked(name, tmp_path)
        newest = max(table.rglob("*.replacecommit"))
        data = newest.read_bytes()
        newest.write_bytes(data.replace(b"_fg%3Dbucket-0_", b"_fg%3Dbucket-1_"))
        with pytest.raises(CorruptFile, match="expected a file in partition 'b'"):
            rows(table)
