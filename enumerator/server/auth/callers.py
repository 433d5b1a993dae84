"""Authentication: the names that a call proves, and the principal, which owns the caller's groups and plans.

The interceptor authenticates each call and binds its principal in the thread of the handler.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Final, cast

import grpc

from penstock.enumerator.server.auth.tokens import TokenFile
from penstock.proto.errors import PermissionDenied, Unauthenticated

MAX_PRINCIPAL_CHARS: Final = 300
_PRINCIPAL: ContextVar[str] = ContextVar("penstock_principal", default="")
_NAMES: ContextVar[tuple[str, ...]] = ContextVar("penstock_names", default=())


def principal_of(names: Iterable[str]) -> str:
    """The principal of a caller with these names, in any order; '' without authentication. If the joined names exceed
    MAX_PRINCIPAL_CHARS, or one contains a comma, it is a SHA-256. Different sets of names never give the same text."""
    ordered = sorted(names)
    text = ", ".join(ordered)
    if len(text) <= MAX_PRINCIPAL_CHARS and not any("," in name for name in ordered):
        return text
    return f"sha256:{hashlib.sha256(repr(ordered).encode()).hexdigest()}"


@contextmanager
def calling(names: Iterable[str]) -> Iterator[None]:
    """Sets `caller` to the principal of these names, and `caller_names`, in this thread while the block runs."""
    names = tuple(names)
    token, token_of_names = _PRINCIPAL.set(principal_of(names)), _NAMES.set(names)
    try:
        yield
    finally:
        _NAMES.reset(token_of_names)
        _PRINCIPAL.reset(token)


def caller_names() -> tuple[str, ...]:
    """The names of the caller whose call this thread handles; () without authentication."""
    return _NAMES.get()


def caller() -> str:
    """The principal of the call that this thread handles; '' without authentication."""
    return _PRINCIPAL.get()


def own_request_id(principal: str, request_id: str) -> str:
    """The stored id of a request of this principal. Ids of different principals never collide. '' stays ''."""
    if not principal or not request_id:
        return request_id
    return hashlib.sha256(f"{principal}\0{request_id}".encode()).hexdigest()


class CallerNames:
    """The names of a caller: `token:NAME` and `cert:SAN`, if the server requires tokens or certificates."""

    def __init__(self, tokens: TokenFile | None, *, certificates: bool, allowed_sans: Iterable[str] = ("*",)) -> None:
        self._tokens = tokens
        self._certificates = certificates
        self._allowed_sans = tuple(allowed_sans)

    def of(self, context: grpc.ServicerContext) -> tuple[str, ...]:
        """The caller's names, () without authentication. Errors: see `proved`."""
        # A key has several values, unlike in the stubs of grpcio.
        properties = cast("Mapping[str, Iterable[bytes]]", context.auth_context())
        sans = [name.decode("utf-8", "replace") for name in properties.get("x509_subject_alternative_name", ())]
        sent = [str(value) for key, value in context.invocation_metadata() if key == "authorization"]
        return self.proved(sent, sans, has_certificate=bool(properties.get("x509_pem_cert") or sans))

    def proved(self, authorization: Sequence[str], sans: Sequence[str], *, has_certificate: bool) -> tuple[str, ...]:
        """The names that a call proves by its values of `authorization` and the alternative names of its certificate.

        Unauthenticated; PermissionDenied (a certificate without an allowed name). If a token is sent, it must be valid,
        even with a valid certificate."""
        names = self._by_certificate(sans, has_certificate) if self._certificates else ()
        if self._tokens is None:
            return names
        sent = _bearer(authorization)
        if sent is None and names:
            return names
        if sent is None:
            raise Unauthenticated(
                "no token was sent: give the option serverToken, a file that holds one (metadata `authorization: "
                "Bearer …`)"
            )
        return (*names, f"token:{self._tokens.name_of(sent)}")

    def _by_certificate(self, sans: Sequence[str], has_certificate: bool) -> tuple[str, ...]:
        if not has_certificate:
            raise Unauthenticated("no client certificate was sent: give the options serverCert and serverKey")
        allowed = [san for san in sans if any(fnmatchcase(san, pattern) for pattern in self._allowed_sans)]
        if not allowed:
            raise PermissionDenied(
                f"none of the client certificate's names is allowed here: got {', '.join(sans)[:300] or 'none'} "
                "(tls.allowedSans of the server)"
            )
        return tuple(f"cert:{san}" for san in allowed)


def _bearer(sent: Sequence[str]) -> str | None:
    """The token in the values of `authorization`; None if there is none."""
    if not sent:
        return None
    scheme, _, token = sent[0].partition(" ")
    if len(sent) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("metadata `authorization`: expected `Bearer` and one token, once")
    return token.strip()
