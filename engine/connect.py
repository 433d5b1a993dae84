"""Which enumerator a read asks: the one behind `server`, or one inside this process.

The only place of the engine that chooses for reads (`group_doors` for consumers); everything behind it sees
`penstock.proto.enumerator.Enumerator`. Imports are late, so that a read without a server never loads gRPC, and a task
of Spark no planner.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.access import NO_ACCESS, ServerAccess
from penstock.proto.model.groups import GroupService

if TYPE_CHECKING:
    from penstock.enumerator.embedded import EmbeddedEnumerator
    from penstock.proto.enumerator import Enumerator


def enumerator_for(server: str | None, access: ServerAccess = NO_ACCESS) -> Enumerator:
    """An enumerator for one read. With `server` (HOST:PORT, reached with `access`) tables are names that it serves,
    without one paths or URIs.

    Nothing is asked yet. Neither kind holds anything that must be closed: connections belong to the process, and the
    plans of an enumerator inside the process live as long as it does.
    """
    if server is not None:
        from penstock.proto.client.client import EnumeratorClient

        return EnumeratorClient(server, access=access)
    return embedded_enumerator()


def embedded_enumerator() -> EmbeddedEnumerator:
    """An enumerator inside this process, which may read splits for their event times."""
    from penstock.engine.event_time_scan import scan_event_time
    from penstock.enumerator.embedded import EmbeddedEnumerator
    from penstock.enumerator.tables.open_tables import OpenedTables

    return EmbeddedEnumerator(reads=OpenedTables(scan_event_time=scan_event_time))


class GroupEnumerator(Enumerator, GroupService, Protocol):
    """What a consumer asks: the group door hands out splits, `describe_plan` says what those of a round share."""


def group_door_for(server: str | None, access: ServerAccess = NO_ACCESS) -> GroupEnumerator:
    """The enumerator that keeps consumer groups, behind `server` (HOST:PORT, reached with `access`). Nothing is asked
    yet, nothing need be closed. ConfigurationError without a server: a group must outlive its readers."""
    if server is None:
        raise ConfigurationError(
            "a consumer group needs a server, which keeps it: give the option server (HOST:PORT of a running "
            "`penstock serve`)"
        )
    from penstock.proto.client.client import EnumeratorClient

    return EnumeratorClient(server, access=access)


@contextmanager
def following_door(server: str | None, access: ServerAccess = NO_ACCESS) -> Iterator[GroupEnumerator]:
    """`group_door_for`; without a server one inside this process, whose groups end with the block."""
    if server is not None:
        yield group_door_for(server, access)
        return
    from penstock.engine.event_time_scan import scan_event_time
    from penstock.enumerator.service import EnumeratorService
    from penstock.enumerator.tables.followed_tables import FollowedTables

    service = EnumeratorService(reads=FollowedTables(scan_event_time=scan_event_time))
    service.start()
    try:
        yield service
    finally:
        service.stop()
