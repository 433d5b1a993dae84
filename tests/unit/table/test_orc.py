"""Footers of ORC base files."""

from __future__ import annotations

import pathlib

import pyarrow as pa
from pyarrow import orc

from penstock.table.orc import is_orc, orc_footer

ROWS = pa.table({"id": ["a", "b", None], "at": pa.array([1, 2, 3], pa.timestamp("ns"))})


def test_footer_has_rows_and_columns(tmp_path: pathlib.Path) -> None:
    orc.write_table(ROWS, tmp_path / "f.orc")
    with pa.OSFile(str(tmp_path / "f.orc")) as source:
        footer = orc_footer(source, "base file f.orc of table t")
    assert (footer.rows, footer.schema, footer.avro_json) == (3, ROWS.schema, "")


def test_the_name_decides() -> None:
    assert is_orc("p=x/a_0-1-2_3.orc") and not is_orc("p=x/a_0-1-2_3.parquet")
