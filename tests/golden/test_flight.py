"""Golden tables over Arrow Flight, by the client of pyarrow: Hudi's rows, and those of `penstock.read`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock
from penstock.proto.model.queries import Incremental, Latest, Query, ReadOptimized, Snapshot, SnapshotAsOf
from tests.golden.catalogue import Entry, counted_entries
from tests.golden.rows import difference
from tests.golden.test_every_golden_table import expected_rows
from tests.unit.engine.flight.served import Client, served

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden

ENTRIES = [
    entry
    for number, entry in enumerate(counted_entries())
    if not entry.must_fail and (number % 16 == 0 or str(entry).endswith("types_v9_h120/snapshot"))
]
CHANGES = (
    "B_v6_cdc_cow_data_before_after",
    "B_v8_cdc_mor_data_before_after",
    "B_v9_cdc_cow_op_key_only",
    "B_v9_cdc_types_mor",
    "A_types_v9_h120",
    "D_changelog_mor_v9",
)


@pytest.fixture(scope="module")
def client(golden: GoldenTables) -> Iterator[Client]:
    names = {entry.case for entry in ENTRIES} | set(CHANGES)
    with served({name: golden.table(name) for name in sorted(names)}) as running:
        yield Client(running.address)


def keys_of(query: Query) -> dict[str, Any]:
    """The keys of a command for this query."""
    match query:
        case Snapshot():
            return {}
        case ReadOptimized():
            return {"query": "read_optimized"}
        case SnapshotAsOf(instant):
            return {"asOf": str(instant)}
        case Incremental(after, upto):
            end = "latest" if isinstance(upto, Latest) else str(upto)
            return {"query": "incremental", "after": str(after), "upto": end}
    raise AssertionError(f"no command for {query}")


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_rows_of_hudi(client: Client, golden: GoldenTables, entry: Entry) -> None:
    rows = client.rows(entry.case, columnsByName=entry.columns_by_name, **keys_of(entry.query))
    assert difference(rows, expected_rows(golden, entry)) == ""


@pytest.mark.parametrize("form", ["rows", "hudi"])
@pytest.mark.parametrize("case", CHANGES)
def test_changes(client: Client, golden: GoldenTables, case: str, form: str) -> None:
    options = {"query": "cdc", "after": "earliest"}
    expected = penstock.read(str(golden.table(case)), cdc_format=form, **options).read_all()
    rows = client.rows(case, cdcFormat=form, **options)
    assert rows.equals(expected) and rows.num_rows
    assert not rows.slice(1).equals(expected)


def test_sample_has_every_kind_of_query_and_table() -> None:
    assert {type(entry.query) for entry in ENTRIES} >= {Snapshot, Incremental, SnapshotAsOf}
    cases = {entry.case for entry in ENTRIES}
    for part in ("cow", "mor", "types", "_v6", "_v8", "_v9"):
        assert any(part in case for case in cases), part


def test_comparison_detects_a_row_that_differs(client: Client, golden: GoldenTables) -> None:
    entry = next(entry for entry in ENTRIES if isinstance(entry.query, Snapshot))
    rows = client.rows(entry.case)
    assert "1 missing" in difference(rows.slice(1), rows)
    assert "1 extra" in difference(pa.concat_tables([rows, rows.slice(0, 1)]), rows)
