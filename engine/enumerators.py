"""Which enumerator a read asks: the one behind `server`, or one inside this process.

The only place of the engine that chooses; everything behind it sees `penstock.proto.enumerator.Enumerator`. Imports
are late, so that a read without a server never loads gRPC.
"""

from __future__ import annotations

from penstock.proto.access import NO_ACCESS, ServerAccess
from penstock.proto.enumerator import Enumerator


def enumerator_for(server: str | None, access: ServerAccess = NO_ACCESS) -> Enumerator:
    """An enumerator for one read. With `server` (HOST:PORT, reached with `access`) tables are names that it serves,
    without one paths or URIs.

    Nothing is asked yet. Neither kind holds anything that must be closed: connections belong to the process, and the
    plans of an enumerator inside the process live as long as it does.
    """
    if server is not None:
        from penstock.proto.client import EnumeratorClient

        return EnumeratorClient(server, access=access)
    from penstock.enumerator.embedded import EmbeddedEnumerator

    return EmbeddedEnumerator()
