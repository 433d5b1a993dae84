"""A completed write of the lake, as far as a hand-over asks.

Pure values. Belongs here: what the walk back needs to know of an instant. Not here: how it is read (`table_commits`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeCommit:
    """A completed instant: `instant` is its requested time, `order_key` what orders it, `extra` its keys and values.

    `is_service`: it only rearranged rows. `wrote_nothing`: it wrote no file and replaced none. `archived`: it left the
    active timeline.
    """

    instant: str
    order_key: str
    action: str
    operation: str
    is_service: bool
    wrote_nothing: bool
    extra: Mapping[str, str]
    archived: bool = False

    def __str__(self) -> str:
        return f"{self.action} {self.instant}"
