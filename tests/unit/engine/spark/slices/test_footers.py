"""Facts of footers: kept once per file, unknown for what cannot be read, values of a column that has only one."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.spark.slices.footers import FooterFacts
from penstock.proto.model.files import FileRef
from penstock.table.storage.filesystem import open_storage


def refs(*names: str) -> list[FileRef]:
    return [FileRef(path=name, size_bytes=1) for name in names]


def test_facts_of_files(tmp_path: pathlib.Path) -> None:
    columns = {"one": ["x", "x"], "two": ["x", "y"], "holes": ["x", None], "n": [7, 7], "f": [1.5, 1.5]}
    for name in "abc":
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet", row_group_size=1)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no footer PAR1")
    known = FooterFacts()
    names = ("a.parquet", "broken.parquet", "gone.parquet", "b.parquet")
    first, broken, gone, second = known.of(open_storage(str(tmp_path)), refs(*names), tuple(columns))
    assert first is not None
    assert second is not None
    assert (broken, gone) == (None, None)
    assert first.single_values == {"one": "x", "n": 7}, "a row group with a null alone proves nothing"
    assert (first.row_groups, first.size_bytes) == (2, (tmp_path / "a.parquet").stat().st_size)
    assert first.layout is second.layout
    assert first.writer.startswith("parquet-cpp")
    (tmp_path / "a.parquet").unlink()
    assert known.of(open_storage(str(tmp_path)), refs("a.parquet"), tuple(columns)) == [first], "files never change"


def test_unreadable_first_file_ends_the_attempt(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    assert FooterFacts().of(open_storage(str(tmp_path)), refs("gone.parquet", "a.parquet"), ()) == [None, None]
    assert FooterFacts().of(open_storage(str(tmp_path)), [], ()) == []
