"""The keys of base files, as tasks return them to be joined with rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.engine.spark.write.columns import COPIES, KEY, PARTITION, SLOT, STORED_KEYS
from penstock.engine.spark.write.stored_keys import read_stored_keys, stored_keys
from penstock.engine.write.current_table import current_table
from penstock.proto.errors import TableError
from tests.unit.engine.spark.write.opened_table import opened
from tests.unit.engine.write.recorded_storage import Kind, Lake


def test_each_key_stands_once_with_the_slot_of_its_slice(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake((9, "copy_on_write", "simple"))
    lake.write([("a", 1, "oslo"), ("b", 2, "bern"), ("c", 3, "oslo"), ("a", 4, "oslo")], "insert")
    slices = current_table(lake.table()).slices
    searched = [(7, slices.of("oslo")[0]), (9, slices.of("bern")[0])]
    places = pa.RecordBatch.from_pydict({"id": [1, 0]})
    rows = pa.Table.from_batches(read_stored_keys(opened(lake), searched)(iter([places])))
    assert rows.schema == STORED_KEYS
    found = zip(*(rows[name].to_pylist() for name in (PARTITION, KEY, SLOT, COPIES)), strict=True)
    assert sorted(found) == [("bern", "b", 9, False), ("oslo", "a", 7, True), ("oslo", "c", 7, False)]


def test_slice_without_a_base_file_is_refused(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake((9, "copy_on_write", "simple"))
    lake.write([("a", 1, "oslo")], "insert")
    (item,) = current_table(lake.table()).slices.of("oslo")
    with pytest.raises(TableError, match="has only logs, which this index does not search"):
        list(stored_keys(opened(lake), 0, replace(item, base=None)))
