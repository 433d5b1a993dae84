"""The cases that are tried: `pairs.py` printed this table, and a test holds it against what must be covered."""

from __future__ import annotations

from pairs import FACTORS, Case

CASES: tuple[Case, ...] = (
    ("window_join", "sql", "mor9-nulls", "scan", "snapshot", "idle", "stopped", "inside", "server"),
    ("sliding", "frame", "mor6-ooo-late-nulls", "hold", "earliest", "idle", "failed", "inside", "server"),
    ("session", "frame", "mor9-nulls", "commitTime", "snapshot", "never", "failed", "none", "embedded"),
    ("interval_inner", "frame", "cow9-late-cdc", "scan", "earliest", "never", "stopped", "none", "server"),
    ("window_join", "sql", "mor6-ooo-late-nulls", "hold", "snapshot", "never", "none", "none", "embedded"),
    ("interval_left", "frame", "cow9-ooo-nulls", "scan", "earliest", "idle", "none", "inside", "embedded"),
    ("deduplicated", "frame", "mor9-ooo-late-cdc", "commitTime", "earliest", "idle", "none", "inside", "server"),
    ("tumbling", "sql", "cow9-late-cdc", "scan", "snapshot", "never", "failed", "inside", "server"),
    ("deduplicated", "frame", "mor9-nulls", "hold", "snapshot", "never", "stopped", "none", "embedded"),
    ("tumbling", "sql", "mor6-ooo-late-nulls", "commitTime", "earliest", "idle", "stopped", "none", "embedded"),
    ("sliding", "frame", "mor9-nulls", "scan", "snapshot", "never", "none", "none", "embedded"),
    ("session", "frame", "mor9-ooo-late-cdc", "hold", "earliest", "idle", "none", "inside", "server"),
    ("interval_inner", "frame", "mor6-ooo-late-nulls", "scan", "snapshot", "idle", "none", "inside", "embedded"),
    ("interval_left", "frame", "mor9-ooo-late-cdc", "hold", "snapshot", "never", "stopped", "none", "server"),
    ("window_join", "frame", "mor9-ooo-late-cdc", "commitTime", "earliest", "never", "failed", "none", "embedded"),
    ("interval_inner", "frame", "mor9-nulls", "hold", "earliest", "never", "failed", "none", "embedded"),
    ("sliding", "frame", "mor9-ooo-late-cdc", "commitTime", "earliest", "never", "stopped", "none", "embedded"),
    ("session", "frame", "cow9-ooo-nulls", "scan", "earliest", "never", "stopped", "none", "embedded"),
    ("interval_left", "frame", "mor9-nulls", "commitTime", "earliest", "never", "failed", "none", "embedded"),
    ("deduplicated", "frame", "cow9-ooo-nulls", "scan", "earliest", "never", "failed", "none", "embedded"),
    ("tumbling", "frame", "mor9-nulls", "hold", "earliest", "never", "none", "none", "embedded"),
    ("sliding", "frame", "cow9-ooo-nulls", "scan", "earliest", "never", "none", "none", "embedded"),
    ("session", "frame", "mor6-ooo-late-nulls", "scan", "earliest", "never", "none", "none", "embedded"),
    ("window_join", "frame", "cow9-ooo-nulls", "scan", "earliest", "never", "none", "none", "embedded"),
    ("interval_inner", "frame", "mor9-ooo-late-cdc", "commitTime", "earliest", "never", "none", "none", "embedded"),
    ("interval_left", "frame", "mor6-ooo-late-nulls", "scan", "earliest", "never", "none", "none", "embedded"),
    ("deduplicated", "frame", "mor6-ooo-late-nulls", "scan", "earliest", "never", "none", "none", "embedded"),
)


def name(case: Case) -> str:
    """A test's id."""
    return "-".join(value for value in case if value not in ("none", "never", "frame", "embedded"))


def told(case: Case) -> dict[str, str]:
    """The case by factor."""
    return dict(zip(FACTORS, case, strict=True))
