"""What a table's timeline says about its services, as the hand-out of splits needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.enumerator.service_splits.policy import ServicePolicy
from penstock.proto.model.service_splits import Service


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
