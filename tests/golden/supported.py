"""Golden tables whose every snapshot, read-optimized, time-travel and `inc_*` entry must equal Hudi's rows.

Any other golden table may be refused by name (UnsupportedFeature), but never answered with other rows.
"""

from __future__ import annotations

SUPPORTED = frozenset(
    {
        "A_bucket_index_v9_h120",
        "A_clustering_done_v6_h0150",
        "A_clustering_done_v9_h120",
        "A_clustering_pending_v9_h120",
        "A_compaction_pending_v6_h0150",
        "A_compaction_pending_v8_h102",
        "A_compaction_pending_v9_h120",
        "A_compaction_then_updates_v9_h120",
        "A_cow_mixed_v9_h120",
        "A_delete_all_reinsert_v9_h120",
        "A_failed_leftover_v6_h0150",
        "A_log_only_v6_h0150",
        "A_log_only_v9_h120",
        "A_merge_commit_long_v6_h0150",
        "A_merge_commit_long_v8_h102",
        "A_merge_commit_long_v9_h120",
        "A_merge_event_long_v6_h0150",
        "A_merge_event_long_v8_h120",
        "A_merge_event_long_v9_h120",
        "A_merge_event_string_v9_h120",
        "A_merge_event_timestamp_v9_h120",
        "A_nbcc_commit_v9_h120",
        "A_replace_ops_v6_h0150",
        "A_replace_ops_v9_h120",
        "A_rollback_log_v6_h0150",
        "A_rollback_log_v9_h120",
        "B_v6_inc_cow",
        "B_v6_inc_mor",
        "B_v6_ooo_cow_cdc",
        "B_v8_inc_cow",
        "B_v8_inc_mor",
        "B_v9_inc_cow",
        "B_v9_inc_mor",
        "B_v9_nbcc_mor",
        "B_v9_ooo_cow_cdc",
        "B_v9_ooo_mor",
        "B_v9_ooo_mor_pending",
        "C_v6_sink",
        "C_v9_sink",
    }
)
