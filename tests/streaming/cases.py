"""The cases: `pairs.py` printed this table, and a test checks that it covers all pairs."""

from __future__ import annotations

from tests.streaming.pairs import FACTORS, Case

CASES: tuple[Case, ...] = (
    ("tumbling", "frame", "mor9-nulls", "commitTime", "earliest", "never", "none", "inside", "server"),
    ("tumbling", "sql", "cow9-late-cdc", "scan", "snapshot", "idle", "failed", "none", "embedded"),
    ("tumbling", "sql", "mor6-ooo-late-nulls", "hold", "earliest", "idle", "stopped", "inside", "embedded"),
    ("sliding", "frame", "mor9-ooo-late-cdc", "hold", "earliest", "idle", "none", "none", "embedded"),
    ("sliding", "frame", "mor9-nulls", "scan", "snapshot", "never", "none", "none", "server"),
    ("sliding", "frame", "cow9-ooo-nulls", "scan", "earliest", "never", "stopped", "inside", "server"),
    ("sliding", "frame", "mor6-ooo-late-nulls", "commitTime", "earliest", "never", "failed", "none", "embedded"),
    ("session", "frame", "mor9-nulls", "commitTime", "earliest", "never", "failed", "none", "server"),
    ("session", "frame", "cow9-late-cdc", "scan", "snapshot", "idle", "stopped", "inside", "embedded"),
    ("session", "frame", "mor6-ooo-late-nulls", "hold", "earliest", "never", "none", "inside", "server"),
    ("window_join", "frame", "mor6-ooo-late-nulls", "scan", "earliest", "never", "stopped", "inside", "server"),
    ("window_join", "sql", "mor9-ooo-late-cdc", "commitTime", "earliest", "idle", "failed", "none", "embedded"),
    ("window_join", "sql", "mor9-nulls", "hold", "earliest", "idle", "stopped", "inside", "server"),
    ("window_join", "sql", "cow9-ooo-nulls", "scan", "snapshot", "never", "none", "none", "embedded"),
    ("interval_inner", "frame", "mor9-nulls", "commitTime", "snapshot", "never", "stopped", "none", "embedded"),
    ("interval_inner", "frame", "cow9-late-cdc", "scan", "earliest", "idle", "failed", "inside", "server"),
    ("interval_inner", "frame", "mor6-ooo-late-nulls", "hold", "snapshot", "never", "none", "none", "embedded"),
    ("interval_left", "frame", "mor9-nulls", "commitTime", "snapshot", "idle", "none", "none", "embedded"),
    ("interval_left", "frame", "cow9-late-cdc", "scan", "snapshot", "idle", "stopped", "inside", "server"),
    ("interval_left", "frame", "mor6-ooo-late-nulls", "hold", "earliest", "never", "failed", "none", "server"),
    ("deduplicated", "frame", "mor9-nulls", "hold", "earliest", "idle", "failed", "inside", "embedded"),
    ("deduplicated", "frame", "cow9-late-cdc", "scan", "earliest", "never", "none", "none", "embedded"),
    ("deduplicated", "frame", "mor6-ooo-late-nulls", "commitTime", "snapshot", "never", "stopped", "none", "server"),
)

SHORT_CASES = frozenset(
    {
        "tumbling-sql-mor6-ooo-late-nulls-hold-earliest-idle-stopped-inside",
        "sliding-cow9-ooo-nulls-scan-earliest-stopped-inside-server",
        "session-cow9-late-cdc-scan-snapshot-idle-stopped-inside",
        "window_join-sql-mor9-ooo-late-cdc-commitTime-earliest-idle-failed",
        "interval_inner-mor9-nulls-commitTime-snapshot-stopped",
        "interval_left-mor6-ooo-late-nulls-hold-earliest-failed-server",
        "deduplicated-cow9-late-cdc-scan-earliest",
    }
)
"""The names of the cases that `make test` runs: each value of each factor. `make long` runs the others too."""


def name(case: Case) -> str:
    """A test's id."""
    return "-".join(value for value in case if value not in ("none", "never", "frame", "embedded"))


def factors(case: Case) -> dict[str, str]:
    """The values of the case by factor."""
    return dict(zip(FACTORS, case, strict=True))
