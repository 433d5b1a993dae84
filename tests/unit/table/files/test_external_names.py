"""The names that metadata gives to files of other writers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.model.positions import InstantTime
from penstock.table.files.external_names import folder_of_partition, is_external, parse_external_name, stored_path
from penstock.table.files.names import BaseName, parse_file_name

T = "20240101000000"


@pytest.mark.parametrize(
    ("path", "file_id", "instant", "extension", "stored", "partition"),
    [
        (f"a.parquet_{T}_hudiext", "a.parquet", T, "parquet", "a.parquet", ""),
        (f"p/x_y_z.parquet_{T}_hudiext", "x_y_z.parquet", T, "parquet", "p/x_y_z.parquet", "p"),
        (f"p/data_{T}_hudiext", "data", T, "parquet", "p/data", "p"),
        (f"p/a.ORC_{T}_hudiext", "a.ORC", T, "orc", "p/a.ORC", "p"),
        (f"p/b-0/a.parquet_{T}_fg%3Db-0_hudiext", "b-0/a.parquet", T, "parquet", "p/b-0/a.parquet", "p"),
        (f"b/s/a.parquet_{T}_fg%3Db%2Fs_hudiext", "b/s/a.parquet", T, "parquet", "b/s/a.parquet", ""),
        (f"a.parquet_hudiext_{T}_hudiext", "a.parquet_hudiext", T, "parquet", "a.parquet_hudiext", ""),
    ],
)
def test_names_that_hudi_generates_are_parsed(
    path: str, file_id: str, instant: str, extension: str, stored: str, partition: str
) -> None:
    name = path.rpartition("/")[2]
    assert is_external(name) and parse_file_name(name) == BaseName(file_id, "", InstantTime(instant), extension)
    assert (stored_path(path), folder_of_partition(path)) == (stored, partition)


@pytest.mark.parametrize(
    "name",
    [
        "x_hudiext",
        "_20240101_hudiext",
        "a.parquet_2024x_hudiext",
        f"a.parquet_{T}_fg%3D_hudiext",
        f"a.parquet_{T}_fg%3D..%2F.._hudiext",
        f"a.parquet_{T}_fg%3D%2Fetc_hudiext",
        f"a.parquet_{T}_fg%3Da%2F%2Fb_hudiext",
        f".._{T}_hudiext",
        f"a.parquet_{T}_hudiext.crc",
        "a" * 9000 + f"_{T}_hudiext",
    ],
)
def test_other_names_are_not_external(name: str) -> None:
    assert parse_external_name(name) is None and parse_file_name(name) is None
    assert stored_path(f"p/{name}") == f"p/{name}"


def test_folder_that_the_name_does_not_tell_stays() -> None:
    assert folder_of_partition(f"p/c/a.parquet_{T}_fg%3Db_hudiext") == "p/c"
    assert folder_of_partition(f"p/cb/a.parquet_{T}_fg%3Db_hudiext") == "p/cb"


@given(st.text(max_size=60), st.text(max_size=30))
def test_any_name_stays_in_its_folder(stem: str, folder: str) -> None:
    result = parse_external_name(f"{stem}_{T}_fg%3D{folder}_hudiext".replace("/", ""))
    assert result is None or (not result.file_id.startswith("/") and ".." not in result.file_id.split("/"))
