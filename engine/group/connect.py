"""The enumerator of a consumer group: a server, or one inside this process.

A module of its own, so that a read without a group does not load the types of groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import ConfigurationError
from penstock.proto.group_service import GroupService
from penstock.proto.model.access import NO_ACCESS, ServerAccess


class GroupEnumerator(Enumerator, GroupService, Protocol):
    """The calls that a reader of a group makes: those of the group, and `describe_plan` for the scan of a round."""


def group_enumerator_for(server: str | None, access: ServerAccess = NO_ACCESS) -> GroupEnumerator:
    """The enumerator at `server` (HOST:PORT, reached with `access`), which stores consumer groups. It makes no call yet
    and need not be closed. ConfigurationError without a server: a group must outlive its readers."""
    if server is None:
        raise ConfigurationError(
            "a consumer group needs a server, which stores it: give the option server (HOST:PORT of a running "
            "`penstock serve`)"
        )
    from penstock.proto.client.client import EnumeratorClient

    return EnumeratorClient(server, access=access)


@contextmanager
def open_group_enumerator(
    server: str | None, access: ServerAccess = NO_ACCESS, mergers: tuple[tuple[str, str], ...] = ()
) -> Iterator[GroupEnumerator]:
    """The same; without a server an enumerator inside this process. Its groups end with the block, and it reads event
    times with the functions of the option `mergers`."""
    if server is not None:
        yield group_enumerator_for(server, access)
        return
    from penstock.engine.connect import open_tables
    from penstock.enumerator.service import EnumeratorService

    service = EnumeratorService(reads=open_tables(mergers=mergers))
    service.start()
    try:
        yield service
    finally:
        service.stop()
