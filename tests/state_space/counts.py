"""States and transitions of the searches. Every clone counts the same; they change with the core and the models."""

from __future__ import annotations

GROUPS = {
    "two splits of a row": (2, 558_016, 1_809_659),
    "three splits": (1, 43_898, 129_231),
    "three splits, one at a time": (1, 60_560, 173_711),
    "three splits, the second commit replaces": (1, 41_950, 124_546),
    "three splits with a watermark": (1, 90_090, 275_616),
    "three splits with an end": (1, 37_394, 112_480),
    "three splits, onLostRange=earliest": (1, 58_783, 174_275),
    "three splits, a lease ends and a restart": (2, 19_962, 67_196),
}
"""Of the scopes of a group: faults at most, states, transitions."""
PLANS = {0: (913, 2_419), 1: (21_105, 71_275), 2: (166_555, 690_572)}
"""Of a plan: states and transitions by the number of faults at most."""
WRITES = {
    "writes: two owners of one file group": (1, 15_690, 31_583),
    "writes: two epochs of an owner": (1, 14_730, 31_204),
}
"""Of writes: faults at most, states, transitions."""
