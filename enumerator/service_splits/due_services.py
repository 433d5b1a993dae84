"""`DueServices`: what a table's timeline says is due by the policy of its services. Values, and the function's type."""

from __future__ import annotations

from collections.abc import Callable
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


@dataclass(frozen=True, slots=True, order=True)
class DueService:
    """A service that is due."""

    service: Service
    """The service."""
    instant: str = ""
    """The pending instant that is to be carried out; '': see `ServiceSplitId.instant`."""
    seen: str = ""
    """The newest completed write that the timeline has. A service that found nothing to do is not due again until
    there is a newer one."""


DueServices = Callable[[str, ServicePolicy], tuple[DueService, ...]]
"""The services of the table at a path that are due by a policy. Errors of the table and of its storage."""
