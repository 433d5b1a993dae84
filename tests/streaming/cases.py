"""The cases that are tried: `pairs.py` printed this table, and a test holds it against what must be covered."""

from __future__ import annotations

from pairs import FACTORS, Case

CASES: tuple[Case, ...] = (
    ("tumbling", "frame", "mor9-ooo-late-cdc", "scan", "earliest", "never", "none", "none"),
    ("window_join", "sql", "mor9-nulls", "scan", "snapshot", "idle", "stopped", "inside"),
    ("sliding", "frame", "mor6-ooo-late-nulls", "hold", "earliest", "idle", "failed", "inside"),
    ("session", "frame", "mor9-nulls", "commitTime", "snapshot", "never", "failed", "none"),
    ("interval_inner", "frame", "cow9-late-cdc", "scan", "earliest", "never", "stopped", "inside"),
    ("tumbling", "sql", "mor6-ooo-late-nulls", "commitTime", "snapshot", "idle", "none", "none"),
    ("interval_left", "frame", "mor9-ooo-late-cdc", "hold", "snapshot", "never", "stopped", "none"),
    ("deduplicated", "frame", "cow9-ooo-nulls", "scan", "earliest", "idle", "none", "none"),
    ("window_join", "sql", "mor9-ooo-late-cdc", "commitTime", "earliest", "never", "failed", "none"),
    ("interval_inner", "frame", "mor9-nulls", "hold", "snapshot", "idle", "none", "none"),
    ("sliding", "frame", "cow9-late-cdc", "scan", "snapshot", "never", "failed", "none"),
    ("session", "frame", "mor9-ooo-late-cdc", "scan", "earliest", "idle", "none", "inside"),
    ("deduplicated", "frame", "mor6-ooo-late-nulls", "commitTime", "earliest", "never", "stopped", "inside"),
    ("interval_left", "frame", "mor9-nulls", "scan", "earliest", "idle", "none", "inside"),
    ("tumbling", "sql", "mor9-nulls", "hold", "earliest", "never", "stopped", "inside"),
    ("deduplicated", "frame", "mor9-ooo-late-cdc", "hold", "snapshot", "never", "failed", "none"),
    ("sliding", "frame", "mor9-nulls", "commitTime", "earliest", "never", "none", "none"),
    ("window_join", "frame", "mor6-ooo-late-nulls", "scan", "earliest", "never", "none", "none"),
    ("interval_inner", "frame", "mor6-ooo-late-nulls", "commitTime", "earliest", "never", "failed", "none"),
    ("tumbling", "sql", "cow9-ooo-nulls", "scan", "earliest", "never", "failed", "none"),
    ("session", "frame", "mor6-ooo-late-nulls", "hold", "earliest", "never", "stopped", "none"),
    ("interval_left", "frame", "mor6-ooo-late-nulls", "commitTime", "earliest", "never", "failed", "none"),
    ("sliding", "frame", "mor9-ooo-late-cdc", "scan", "earliest", "never", "stopped", "none"),
    ("session", "frame", "cow9-ooo-nulls", "scan", "earliest", "never", "none", "none"),
    ("window_join", "frame", "mor9-ooo-late-cdc", "hold", "earliest", "never", "none", "none"),
    ("window_join", "frame", "cow9-ooo-nulls", "scan", "earliest", "never", "none", "none"),
    ("interval_left", "frame", "cow9-ooo-nulls", "scan", "earliest", "never", "none", "none"),
    ("deduplicated", "frame", "mor9-nulls", "scan", "earliest", "never", "none", "none"),
)


def name(case: Case) -> str:
    """A test's id."""
    return "-".join(value for value in case if value not in ("none", "never", "frame"))


def told(case: Case) -> dict[str, str]:
    """The case by factor."""
    return dict(zip(FACTORS, case, strict=True))
