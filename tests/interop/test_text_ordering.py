"""Texts as ordering values: Penstock returns the rows of a slow model. So does Hudi, except for Parquet blocks."""

from __future__ import annotations

import pathlib
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from tests.interop.hudi_options import hudis_options

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

EVENT_TIME: Final = dict.fromkeys(("hoodie.record.merge.mode", "hoodie.write.record.merge.mode"), "EVENT_TIME_ORDERING")
TEXT: Final = "lpad(CAST(c1 AS STRING), 2, '0')"


@pytest.mark.parametrize("version", [9, 6])
def test_texts_as_ordering_values(hudi: Any, tmp_path: pathlib.Path, version: int) -> None:
    """Hudi 1.2.0 compares the rows of a Parquet block with the text of the block's last row: it returned 28 of these
    40 rows wrong when the logs held Parquet blocks."""
    path, model, random = tmp_path / "trip", dict[str, tuple[str, int]](), Random(5)
    schema = pa.schema([("id", pa.string()), ("seq", pa.string()), ("v", pa.int64())])
    create_table(str(path), schema, record_key="id", ordering="seq", buckets=1, table_version=version)
    for low, high in [(30, 60), *[(10, 90)] * 4]:
        rows = [{"id": f"k{n}", "seq": str(random.randint(low, high)), "v": random.randint(0, 999)} for n in range(40)]
        write(str(path), pa.Table.from_pylist(rows, schema))
        for row in rows:
            if row["seq"] >= model.get(row["id"], ("", 0))[0]:
                model[row["id"]] = (row["seq"], row["v"])
        for found in (penstock.read(str(path)).read_all(), hudi.read(path)):
            assert {row["id"]: (row["seq"], row["v"]) for row in found.to_pylist()} == model


@pytest.mark.parametrize("fields", ["seq", "s.seq,s.x"])
@pytest.mark.parametrize("blocks", ["parquet", "avro"])
def test_texts_in_log_blocks_of_hudi(hudi: Any, tmp_path: pathlib.Path, blocks: str, fields: str) -> None:
    """Penstock's rows are those of the model. Hudi 1.2.0 returns these rows for Avro blocks and other rows for Parquet
    blocks (docs/reference/semantics.md, "Where Penstock differs from Hudi")."""
    path, model, random = tmp_path / "trip", dict[str, tuple[int, int]](), Random(5)
    options = hudis_options(9, "merge_on_read", "simple") | EVENT_TIME
    options |= {"hoodie.datasource.write.precombine.field": fields, "hoodie.logfile.data.block.format": blocks}
    columns = [("id", "c0"), ("city", "'oslo'"), ("seq", TEXT), ("v", "c2")]
    columns.append(("s", f"named_struct('seq', {TEXT}, 'x', c2)"))
    for number in range(3):
        rows = [(f"k{n}", random.randint(1, 20), 100 * number + n) for n in range(40)]
        hudi.write(path, columns, rows, options)
        for key, seq, v in rows:
            model[key] = max(model.get(key, (0, 0)), (seq, v))

    def rows_by_key(table: pa.Table) -> dict[str, tuple[int, int]]:
        return {row["id"]: (int(row["seq"]), row["v"]) for row in table.to_pylist()}

    assert rows_by_key(penstock.read(str(path)).read_all()) == model
    assert (rows_by_key(hudi.read(path)) == model) == (blocks == "avro")
