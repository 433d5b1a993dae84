"""The policy of a table's services. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.proto.model.service_splits import NO_OPTIONS, Service, ServiceOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePolicy:
    """When which services of a table are due, and how they are carried out."""

    services: tuple[Service, ...]
    """The services."""
    cluster_after: int | None = None
    """A clustering is due after so many writes; None: what the table says, else never."""
    clean_after: int = 1
    """A clean is due after so many writes."""
    max_running: int = 2
    """How many splits of the table members have at a time."""
    pause_ms: int = 0
    """How long after a split of the table was handed out the next one is."""
    options: ServiceOptions = NO_OPTIONS
    """How they are carried out."""
