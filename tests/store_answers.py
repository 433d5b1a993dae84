"""The answers of a table in an object store, to compare with those of the same table on a local disk."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pyarrow as pa

import penstock
from penstock.proto.errors import PenstockError

CASES: Final = (
    "A_archive_v6_h0150", "A_archive_v9_h120", "A_compaction_then_updates_v9_h120", "A_cow_mixed_v9_h120",
    "A_mdt_all_v9_h120", "A_part_special_v6_h0150", "A_part_special_v9_h120", "B_v6_inc_mor",
    "B_v9_cdc_mor_data_before", "F_orc_mor_v9",
)  # fmt: skip
"""Golden tables: timelines with archives, the metadata table, partitions with special characters, changes, ORC."""
QUERIES: Final[tuple[dict[str, Any], ...]] = ({}, {"query": "incremental", "after": "earliest"}, {"query": "cdc"})
"""Options of a snapshot, of the range of all instants, and of all changes."""


def answer(table: str, **options: Any) -> tuple[Any, Any]:
    """(schema, rows as a multiset), or (code, text without the path) of the error."""
    try:
        table_rows = penstock.read(table, **options).read_all()
    except PenstockError as error:
        return error.code, str(error).replace(table, "TABLE")
    return table_rows.schema, rows(table_rows)


def rows(table: pa.Table) -> Counter[str]:
    """The rows as a multiset. Types are compared separately."""
    return Counter(repr(sorted(row.items())) for row in table.to_pylist())


def check_equal_answers(stored: str, local: str, row_count: int) -> None:
    """Fails unless each query of QUERIES has the same answer in the store and on the disk, and the snapshot has
    `row_count` rows."""
    answers = [(answer(stored, **options), answer(local, **options)) for options in QUERIES]
    assert [there for there, _ in answers] == [here for _, here in answers]
    schema, table_rows = answers[0][0]
    assert isinstance(schema, pa.Schema) and table_rows.total() == row_count
