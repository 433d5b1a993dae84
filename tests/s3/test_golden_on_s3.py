"""Golden tables in an S3-compatible store: rows, ranges and changes are those of the same tables on a local disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.store_answers import check_equal_answers

pytestmark = [pytest.mark.ops, pytest.mark.golden]

CASES = [
    "A_archive_v6_h0150", "A_archive_v9_h120", "A_block_parquet_zstd_v9_h120", "A_bucket_index_v9_h120",
    "A_clustering_pending_v9_h120", "A_compaction_pending_v8_h102", "A_compaction_then_updates_v9_h120",
    "A_corrupt_middle_v9_h120", "A_corrupt_tail_v9_h120", "A_cow_mixed_v9_h120", "A_drop_part_cols_v9_h120",
    "A_evo_on_read_v9_h120", "A_failed_leftover_v9_h120", "A_log_compaction_v9_h120", "A_log_only_v6_h0150",
    "A_mdt_all_v9_h120", "A_merge_custom_delete_v9_h120", "A_merge_event_decimal_v9_h120", "A_nonpart_nometa_v9_h120",
    "A_part_special_v9_h120", "A_positions_v9_h120", "A_replace_ops_v9_h120", "A_rollback_log_v9_h120",
    "A_savepoint_restore_v9_h120", "A_types_v9_h120", "B_v6_inc_mor", "B_v9_arch_mor", "B_v9_cdc_cow_data_before_after",
    "B_v9_cdc_mor_data_before", "B_v9_timeline_mor_pending_compaction",
]  # fmt: skip
"""Thirty: every kind of file, timelines of both layouts, archives, the metadata table, changes."""


@pytest.mark.parametrize("case", CASES)
def test_table_in_the_store_reads_as_on_the_disk(
    proxy: Any, upload: Callable[[str], str], golden: Any, case: str
) -> None:
    check_equal_answers(upload(case), str(golden.table(case)), golden.expected(case, "snapshot").num_rows)
