"""Events of table services; `observer` lists all events. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.proto.model.service_splits import ServiceSplitSummary


@dataclass(frozen=True, slots=True)
class ServicesMeasured:
    """The splits of table services that are due; replaces those before."""

    splits: tuple[ServiceSplitSummary, ...]
    """The splits, by table, service and instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSplitEnded:
    """A member ended a split of a table service, or its lease ended."""

    table: str
    """Name of the table."""
    service: str
    """The service."""
    result: str
    """`done`, `failed` or `expired`."""


ServiceEvent = ServicesMeasured | ServiceSplitEnded
