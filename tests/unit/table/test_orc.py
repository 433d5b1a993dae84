"""Footers of ORC base files."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest
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


@pytest.mark.parametrize("name", [b"at-of-table", b"inside-a-struct"])
def test_name_that_is_not_utf_8_is_damage(name: bytes) -> None:
    """It was a UnicodeDecodeError wherever the name was used first."""
    text, sink = name.decode(), pa.BufferOutputStream()
    column = pa.array([1]) if text.startswith("at") else pa.array([{text: 1}])
    orc.write_table(pa.table({text if text.startswith("at") else "s": column}), sink)
    data = sink.getvalue().to_pybytes()
    assert orc_footer(pa.BufferReader(data), "base file f.orc of table t").rows == 1
    assert data.count(name) == 1
    with pytest.raises(pa.ArrowInvalid, match="not UTF-8"):
        orc_footer(pa.BufferReader(data.replace(name, b"\xff" + name[1:])), "base file f.orc of table t")
