"""Change data capture: every counted entry of the catalogue equals Hudi's changes."""

from __future__ import annotations

import pathlib
from collections import Counter
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.reader.read_split import ReadOptions
from tests.golden.catalogue import Entry, counted_changes
from tests.golden.changes import DUMPED, hudi_changes, lost_decimals, rows_of

pytestmark = pytest.mark.golden

ENTRIES = counted_changes()


class Golden(Protocol):
    def case(self, name: str) -> dict[str, Any]: ...
    def table(self, name: str) -> pathlib.Path: ...
    def names(self) -> list[str]: ...
    def expected(self, name: str, query_id: str) -> pa.Table: ...


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if str(entry) != DUMPED], ids=str)
def test_entry(golden: Golden, entry: Entry) -> None:
    expected_rows = golden.expected(entry.case, entry.query_id)
    lost = lost_decimals(expected_rows)
    needed = hudi_changes(expected_rows, lost)
    for compiled in (True, False):
        rows = rows_of(golden.table(entry.case), entry.query, options=ReadOptions(compiled=compiled))
        assert rows.schema.names == ["op", "ts_ms", "before", "after"]
        actual = hudi_changes(rows, lost)
        assert (needed - actual, actual - needed) == (Counter(), Counter()), compiled


def test_entries_are_complete_except_the_one_with_memory_dumps(golden: Golden) -> None:
    """One entry is omitted: it contains memory dumps, and 1.2.0's entry of the same range is compared."""
    assert len(ENTRIES) == 266
    names = {str(entry) for entry in ENTRIES}
    assert {DUMPED, f"{DUMPED}__r120"} <= names
    images = golden.expected(*DUMPED.split("/"))["after"].to_pylist()
    assert any("baseObject" in text for text in images if text)
    dumping = [str(e) for e in ENTRIES if "baseObject" in str(golden.expected(e.case, e.query_id)["after"].to_pylist())]
    assert dumping == [DUMPED]


def test_comparison_detects_a_change_that_differs(golden: Golden) -> None:
    """Tests the comparison: a changed operation, image or instant, and a dropped change."""
    expected_rows = golden.expected("B_v9_cdc_mor_data_before", "cdc_all")
    lost = lost_decimals(expected_rows)
    whole = hudi_changes(expected_rows, lost)
    assert whole.total() == expected_rows.num_rows > 10
    assert hudi_changes(expected_rows.slice(1), lost) != whole
    for name, old, new in (("op", "u", "i"), ("ts_ms", "2026", "2027"), ("after", "k1", "k0")):
        place = expected_rows.column_names.index(name)
        changed = expected_rows.set_column(place, name, pc.replace_substring(expected_rows[name], old, new))
        assert hudi_changes(changed, lost) != whole
