"""Base files that are not Parquet: their names, their footers, and errors that name the file."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest
from pyarrow import orc

from penstock.proto.errors import CorruptFile
from penstock.proto.model.files import FileRef
from penstock.table.base_formats import OtherFooter, is_parquet, read_other_footer
from penstock.table.storage.filesystem import open_storage
from tests.lance_files import write_lance

ROWS = pa.table({"id": ["a", "b", None], "nested": [{"id": 1, "more": [1]}] * 3})
FORMATS = pytest.mark.parametrize(("name", "kind"), [("f.orc", "ORC"), ("f.lance", "Lance")])


def write(path: pathlib.Path) -> None:
    if path.suffix == ".orc":
        orc.write_table(ROWS, path)
    else:
        write_lance(path, ROWS, "2.0")


def read(folder: pathlib.Path, name: str) -> OtherFooter:
    return read_other_footer(open_storage(str(folder)), FileRef(name, 1))


@FORMATS
def test_footer_has_rows_and_top_level_columns(tmp_path: pathlib.Path, name: str, kind: str) -> None:
    write(tmp_path / name)
    assert read(tmp_path, name) == OtherFooter(3, ("id", "nested"), ""), kind


@FORMATS
@pytest.mark.parametrize("keep", [0, 3, 40, -1])
def test_damaged_file_is_named(tmp_path: pathlib.Path, name: str, kind: str, keep: int) -> None:
    write(tmp_path / name)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:keep])
    with pytest.raises(CorruptFile, match=rf"base file {name} of table .* has no readable {kind} footer"):
        read(tmp_path, name)


@FORMATS
def test_missing_file_is_named(tmp_path: pathlib.Path, name: str, kind: str) -> None:
    with pytest.raises(CorruptFile, match=rf"{name} .* is missing"):
        read(tmp_path, name)
    write(tmp_path / name)
    assert read(tmp_path, name).rows == 3, kind


def test_the_name_decides() -> None:
    names = ["p=x/a_0-1-2_3.parquet", "p=x/a_0-1-2_3.orc", "p=x/a_0-1-2_3.lance"]
    assert [is_parquet(name) for name in names] == [True, False, False]
