"""How each file of the suites of faults is known to detect what it looks for: by the invariants that it checks, which
have broken parts (`broken_parts`), or by a reason.

`tests/histories` judges the calls of every test here, too, by rules that have broken histories of their own.
"""

from __future__ import annotations

CHANGES = "the table's changes"
INVARIANTS: dict[str, tuple[str, ...]] = {
    "test_fault_01_killed_server.py": (CHANGES,),
    "test_fault_03_disk_error_once.py": ("down after a failed write", "acknowledged in spite of EIO"),
    "test_fault_03_disk_full_under_a_server.py": (CHANGES,),
    "test_fault_03_slow_disk.py": ("no answer before it is durable", "a slow disk ends no lease"),
    "test_fault_04_two_server_processes.py": (CHANGES,),
    "test_fault_05_paused_reader.py": ("one commit", "one content", "a stale commit is fenced"),
    "test_fault_05_to_07_readers.py": (CHANGES,),
    "test_fault_08_repeated_calls.py": (CHANGES,),
    "test_fault_11_cleaner_under_a_reader.py": (CHANGES,),
    "test_fault_12_13_stopped_groups.py": (CHANGES,),
    "test_fault_30_stepped_clocks.py": ("lease under a stepped clock", "no row is lost", "no row is doubled"),
    "test_fault_33_groups_reconnect.py": (CHANGES,),
    "test_fault_35_unreliable_network.py": (
        *("no row is lost", "no row is doubled", "no row is changed"),
        *("order of a key", "one commit", "one content"),
    ),
    "test_fault_36_power_failure.py": (
        *("acknowledged transactions are durable", "transactions are whole", "a power failure is no damage"),
    ),
    "test_faults_on_s3.py": (CHANGES,),
}
"""The invariants of each file, by name."""
ACKNOWLEDGED = "the store's records are compared, literally, with those that it reported as durable"
ROWS = "rows are compared, as lists, with those of the undamaged table; the comparison has its negative control"
LITERAL = "each test expects one error, by class and text, or one number: another outcome fails it"
SCRIPTED = "positions, splits and owners are compared, literally, with those of a scripted timeline"
REASONS: dict[str, str] = {
    "test_broken_parts.py": "the negative controls",
    "test_fault_01_killed_store.py": ACKNOWLEDGED,
    "test_fault_02_torn_and_flipped_state.py": ACKNOWLEDGED,
    "test_fault_03_disk_full.py": f"{ACKNOWLEDGED}; {LITERAL}",
    "test_fault_04_two_servers_one_state.py": LITERAL,
    "test_fault_10_other_parallelism.py": SCRIPTED,
    "test_fault_11_planned_rounds.py": ROWS,
    "test_fault_12_to_15_timelines.py": SCRIPTED,
    "test_fault_16_corrupt_log_block.py": ROWS,
    "test_fault_17_hostile_lengths.py": LITERAL,
    "test_fault_18_half_written_files.py": ROWS,
    "test_fault_19_stale_listings.py": f"{ROWS}: test_fault_19_missing_file_is_corrupt",
    "test_fault_22_services_during_a_read.py": ROWS,
    "test_fault_23_cdc.py": "the fold has test_comparison_detects_exchanged_changes_of_a_key",
    "test_fault_26_grpc_abuse.py": f"{LITERAL}; test_known_principal_with_the_right_is_served is the other case",
    "test_fault_26_limits.py": f"{LITERAL}; each test has a caller that is served",
    "test_fault_27_path_attacks.py": LITERAL,
    "test_fault_28_secrets.py": "the secrets are searched by their text, which the run is shown to have used",
    "test_fault_29_a_million_splits.py": f"{SCRIPTED}; {LITERAL}",
    "test_fault_30_clocks.py": (
        "test_lease_check_detects_leases_on_the_wall_clock, "
        "test_lease_check_detects_leases_that_end_during_a_suspension"
    ),
    "test_fault_31_cancelled_calls.py": f"{SCRIPTED}; {LITERAL}",
    "test_fault_32_state_versions.py": LITERAL,
    "test_fault_32_stored_state.py": (
        "test_fault_32_mangled_query_kind_in_a_stored_state_is_detected, test_fault_32_other_split_ids_are_detected"
    ),
    "test_fault_33_reconnect.py": SCRIPTED,
    "test_fault_34_poisoned_neighbours.py": "test_fault_34_checks_detect_missing_isolation",
    "test_weak_points.py": SCRIPTED,
}
"""Why each other file needs no broken part."""
