"""Every engine returns the rows of `penstock.read`: all kinds of queries over golden tables, with all their types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import penstock
from tests.engines.frames import Engine, rows_of
from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden

SNAPSHOTS = (
    "A_types_v9_h120",
    "A_types_parquet_log_v9_h120",
    "A_types_int96_v6_h0150",
    "A_types_bulk_millis_v9_h120",
    "A_cow_mixed_v9_h120",
    "A_merge_event_decimal_v9_h120",
    "A_merge_event_timestamp_v6_h0150",
    "A_merge_null_ordering_v9_h120",
    "A_key_composite_v9_h120",
    "A_nonpart_nometa_v9_h120",
    "A_part_special_v9_h120",
    "A_drop_part_cols_v9_h120",
    "A_evo_widen_v9_h120",
    "A_log_only_v9_h120",
    "D_evolved_on_read_mor_v9",
    "J_variant_whole_mor_v9",
)
QUERIES: tuple[tuple[str, dict[str, str]], ...] = (
    *((case, {}) for case in SNAPSHOTS),
    ("A_compaction_pending_v9_h120", {"query": "read_optimized"}),
    ("B_v9_inc_mor", {"query": "incremental", "after": "earliest"}),
    ("B_v9_inc_cow", {"query": "incremental", "after": "latest"}),
    ("B_v9_inc_mor", {"as_of": "20000101000000000"}),
    ("B_v9_cdc_types_mor", {"query": "cdc", "after": "earliest"}),
    ("B_v9_cdc_cow_op_key_only", {"query": "cdc", "after": "earliest", "cdc_format": "hudi"}),
)
NO_ROWS = 2
"""Queries without rows."""


@pytest.mark.sampled(6, rest=30)
@pytest.mark.parametrize(("case", "options"), QUERIES, ids=[f"{case}-{'-'.join(o.values())}" for case, o in QUERIES])
def test_rows_equal_penstock_read(golden: GoldenTables, engine: Engine, case: str, options: dict[str, Any]) -> None:
    table = golden.table(case)
    expected = penstock.read(table, **options).read_all()
    result = engine.all_rows(engine.table(table, **options))
    assert result.schema.names == expected.schema.names
    assert result.schema == engine.all_rows(engine.memory(expected)).schema
    assert rows_of(result) == rows_of(expected)


def test_queries_have_rows_of_every_kind(golden: GoldenTables) -> None:
    tables = [penstock.read(golden.table(case), **options).read_all() for case, options in QUERIES]
    assert sum(not table.num_rows for table in tables) == NO_ROWS
    kinds = {kind.id for table in tables for kind in table.schema.types}
    nested = {pa.types.is_struct, pa.types.is_map, pa.types.is_list, pa.types.is_decimal, pa.types.is_timestamp}
    assert all(any(is_kind(kind) for table in tables for kind in table.schema.types) for is_kind in nested)
    assert len(kinds) > 12
    assert any(column.null_count for table in tables for column in table.columns)


def test_comparison_sees_each_difference(golden: GoldenTables) -> None:
    table = penstock.read(golden.table("A_types_v9_h120")).read_all()
    position = table.schema.get_field_index("d2")
    nulls = table.set_column(position, "d2", pa.nulls(table.num_rows, table.schema.field("d2").type))
    longer = pa.concat_tables([table, table.slice(0, 1)])
    for other in (nulls, longer, table.slice(1), table.drop_columns(["d2"])):
        assert rows_of(other) != rows_of(table)
