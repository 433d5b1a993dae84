"""Ordering values that are texts: real Hudi and Penstock return the rows of a slow model."""

from __future__ import annotations

import pathlib
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


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
