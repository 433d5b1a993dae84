"""Observation of the write transactions of tables: see `observer`. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.proto.model.writes import WriteState


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWritesMeasured:
    """The write transactions of a table."""

    writes: Mapping[WriteState, int]
    """How many have not ended, by state."""
    groups: int
    """File groups and partitions that they hold."""
    oldest_s: Mapping[WriteState, float]
    """The longest time that one of them has been in its state."""
    ended: Mapping[str, int]
    """How many have ended since the event before, by `completed` or the value of their `WriteEnd`."""
    conflicts: int
    """How often a lease was refused since the event before."""


@dataclass(frozen=True, slots=True)
class WritesMeasured:
    """The write transactions of all tables. It replaces the event before it."""

    tables: Mapping[str, TableWritesMeasured]
    """By table."""
