"""`ServiceSplitService`, the interface by which a server hands out table services. Its values are in
`penstock.proto.model.service_splits`."""

from __future__ import annotations

from typing import Protocol

from penstock.proto.model.service_splits import (
    ServiceAnswer,
    ServiceOutcome,
    ServiceRequest,
    ServiceSplitId,
    ServiceSplitSummary,
)


class ServiceSplitService(Protocol):
    """The table services that are due, as splits for the members of a worker group. Any thread.

    Calls may be repeated. Errors are those of `penstock.proto.errors`: Fenced for a split that the member no longer
    has. A member that is fenced may go on: the heartbeat of the instant decides who completes it. `principal` is that
    of the caller; a client leaves it out, and the server sets it.
    """

    def request_service_split(self, request: ServiceRequest, principal: str = "") -> ServiceAnswer:
        """The next split for a member; the one that it has already, if its answer was lost."""
        ...

    def renew_service_split(self, split: ServiceSplitId, member: str, attempt: int, principal: str = "") -> int:
        """Renews the lease of a split; returns its length in milliseconds."""
        ...

    def finish_service_split(
        self, split: ServiceSplitId, member: str, attempt: int, outcome: ServiceOutcome, principal: str = ""
    ) -> None:
        """Ends a split. A failed one is handed out again after a pause."""
        ...

    def list_service_splits(self, table: str = "") -> tuple[ServiceSplitSummary, ...]:
        """The splits that are due, of a table or of all tables, by table, service and instant."""
        ...
