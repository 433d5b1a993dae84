"""Footers of ORC base files."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest
from pyarrow import orc

from penstock.proto.errors import CorruptFile
from penstock.proto.model.files import FileRef
from penstock.table.orc import is_orc, read_orc_footer
from penstock.table.storage.filesystem import open_storage

ROWS = pa.table({"id": ["a", "b", None], "at": pa.array([1, 2, 3], pa.timestamp("ns"))})


def test_footer_has_rows_and_columns(tmp_path: pathlib.Path) -> None:
    orc.write_table(ROWS, tmp_path / "f.orc")
    footer = read_orc_footer(open_storage(str(tmp_path)), FileRef("f.orc", 1))
    assert (footer.rows, footer.schema, footer.avro_json) == (3, ROWS.schema, "")


@pytest.mark.parametrize("keep", [0, 3, 40, -1])
def test_damaged_file_is_named(tmp_path: pathlib.Path, keep: int) -> None:
    orc.write_table(ROWS, tmp_path / "f.orc")
    (tmp_path / "f.orc").write_bytes((tmp_path / "f.orc").read_bytes()[:keep])
    with pytest.raises(CorruptFile, match=r"base file f\.orc of table .* has no readable ORC footer"):
        read_orc_footer(open_storage(str(tmp_path)), FileRef("f.orc", 1))


def test_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CorruptFile, match=r"f\.orc .* is missing"):
        read_orc_footer(open_storage(str(tmp_path)), FileRef("f.orc", 1))


def test_the_name_decides() -> None:
    assert is_orc("p=x/a_0-1-2_3.orc") and not is_orc("p=x/a_0-1-2_3.parquet")
