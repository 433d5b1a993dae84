"""Which enumerator a consumer asks for its group: the one behind `server`, or one inside this process.

The only place of the engine that chooses for consumers (`enumerators` for reads); everything behind it sees
`penstock.proto.groups.GroupDoor` too. Imports are late, as there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from penstock.proto.access import NO_ACCESS, ServerAccess
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import ConfigurationError
from penstock.proto.groups import GroupDoor


class GroupEnumerator(Enumerator, GroupDoor, Protocol):
    """What a consumer asks: the group door hands out splits, `describe_plan` says what those of a round share."""


def group_door_for(server: str | None, access: ServerAccess = NO_ACCESS) -> GroupEnumerator:
    """The enumerator that keeps consumer groups, behind `server` (HOST:PORT, reached with `access`). Nothing is asked
    yet, nothing need be closed. ConfigurationError without a server: a group must outlive its readers."""
    if server is None:
        raise ConfigurationError(
            "a consumer group needs a server, which keeps it: give the option server (HOST:PORT of a running "
            "`penstock serve`)"
        )
    from penstock.proto.client import EnumeratorClient

    return EnumeratorClient(server, access=access)


@contextmanager
def following_door(server: str | None, access: ServerAccess = NO_ACCESS) -> Iterator[GroupEnumerator]:
    """`group_door_for`; without a server one inside this process, whose groups end with the block."""
    if server is not None:
        yield group_door_for(server, access)
        return
    from penstock.engine.event_times import scan_event_time
    from penstock.enumerator.followed_tables import FollowedTables
    from penstock.enumerator.service import EnumeratorService

    service = EnumeratorService(reads=FollowedTables(scan_event_time=scan_event_time))
    service.start()
    try:
        yield service
    finally:
        service.stop()
