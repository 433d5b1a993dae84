"""Callers of a Flight server: their names by token and certificate, their principal, and their rights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.flight as fl

from penstock.enumerator.server.auth.acl import Rights
from penstock.enumerator.server.auth.callers import CallerNames, principal_of
from penstock.enumerator.server.config.settings import Right
from penstock.proto.errors import PermissionDenied

NEEDED: Final[Mapping[str, Right]] = {
    "ListFlights": "read",
    "GetSchema": "read",
    "GetFlightInfo": "plan",
    "DoGet": "plan",
}
"""The right on the table that each call needs."""

HEADERS: Final = "penstock-headers"
"""The key of the middleware that keeps the headers of a call."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of one call."""

    names: tuple[str, ...]
    """The names that the call proves: `token:NAME`, `cert:SAN`; none without authentication."""
    peer: str
    """The address, as gRPC writes it."""

    @property
    def principal(self) -> str:
        """The principal, to which tickets are bound; '' without authentication."""
        return principal_of(self.names) if self.names else ""


class Gate:
    """Authenticates and authorizes calls."""

    def __init__(self, names: CallerNames, rights: Rights) -> None:
        self._names = names
        self._rights = rights

    def caller(self, context: Any) -> Caller:
        """The caller of the call with this context of pyarrow. Unauthenticated, PermissionDenied.

        Of a client certificate with several alternative names only the first one counts: Arrow shows no other.
        """
        headers = context.get_middleware(HEADERS)
        identity = context.peer_identity().decode("utf-8", "replace")
        sent = [] if headers is None else headers.authorization
        names = self._names.proved(sent, [identity] if identity else [], has_certificate=bool(identity))
        return Caller(names, context.peer())

    def require(self, caller: Caller, call: str, table: str) -> None:
        """PermissionDenied unless the caller may make this call for the table, whether or not the table exists."""
        self._rights.require(caller.names, NEEDED[call], table)

    def may(self, caller: Caller, call: str, table: str) -> bool:
        """Whether `require` passes."""
        try:
            self.require(caller, call, table)
        except PermissionDenied:
            return False
        return True


class _CallHeaders(fl.ServerMiddleware):  # type: ignore[misc]  # pyarrow has no types
    """The headers of one call that authentication needs."""

    def __init__(self, authorization: list[str]) -> None:
        self.authorization = authorization


class KeepHeaders(fl.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow has no types
    """Keeps the header `authorization` of each call for `Gate.caller`; it refuses nothing."""

    def start_call(self, info: Any, headers: Mapping[str, list[str | bytes]]) -> _CallHeaders:
        """The middleware of one call."""
        values = [value for name, values in headers.items() if name.lower() == "authorization" for value in values]
        return _CallHeaders(
            [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values]
        )
