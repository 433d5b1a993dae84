"""Who is calling: the names that a call proves, and the one under which the server keeps what is the caller's.

The guard authenticates each call and binds its principal for the handler, in the handler's own thread. Not here: what a
caller may do (`rights`), how tokens are kept (`tokens`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Final, cast

import grpc

from penstock.enumerator.server.auth.tokens import TokenFile
from penstock.proto.errors import PermissionDenied, Unauthenticated

MAX_PRINCIPAL_CHARS: Final = 300
_PRINCIPAL: ContextVar[str] = ContextVar("penstock_principal", default="")


def principal_of(names: Iterable[str]) -> str:
    """The one name of a caller with these names, whatever their order; '' where nobody is asked. Names that make a
    text beyond MAX_PRINCIPAL_CHARS, or that hold a comma, are a SHA-256: no two sets of names give the same text."""
    ordered = sorted(names)
    text = ", ".join(ordered)
    if len(text) <= MAX_PRINCIPAL_CHARS and not any("," in name for name in ordered):
        return text
    return f"sha256:{hashlib.sha256(repr(ordered).encode()).hexdigest()}"


@contextmanager
def calling(names: Iterable[str]) -> Iterator[None]:
    """While the block runs, `caller` is the principal of these names, in this thread."""
    token = _PRINCIPAL.set(principal_of(names))
    try:
        yield
    finally:
        _PRINCIPAL.reset(token)


def caller() -> str:
    """The principal of the call that this thread answers; '' where nobody is asked."""
    return _PRINCIPAL.get()


def own_request_id(principal: str, request_id: str) -> str:
    """The id under which a request of this principal is kept: those of two principals never meet. '' stays ''."""
    if not principal or not request_id:
        return request_id
    return hashlib.sha256(f"{principal}\0{request_id}".encode()).hexdigest()


class CallerNames:
    """Who is calling: `token:NAME` and `cert:SAN`, as far as the server asks for them."""

    def __init__(self, tokens: TokenFile | None, *, certificates: bool, allowed_sans: Iterable[str] = ("*",)) -> None:
        self._tokens = tokens
        self._certificates = certificates
        self._allowed_sans = tuple(allowed_sans)

    def of(self, context: grpc.ServicerContext) -> tuple[str, ...]:
        """The caller's names, () where nobody is asked. Unauthenticated, PermissionDenied (a certificate without an
        allowed name). A token that is sent must be right, also beside a certificate."""
        names = self._by_certificate(context) if self._certificates else ()
        if self._tokens is None:
            return names
        sent = _bearer(context)
        if sent is None and names:
            return names
        if sent is None:
            raise Unauthenticated(
                "no token was sent: give the option serverToken, a file that holds one (metadata `authorization: "
                "Bearer …`)"
            )
        return (*names, f"token:{self._tokens.name_of(sent)}")

    def _by_certificate(self, context: grpc.ServicerContext) -> tuple[str, ...]:
        # A name has several values, whatever the stubs of grpcio say.
        found = cast("Mapping[str, Iterable[bytes]]", context.auth_context())
        sans = [name.decode("utf-8", "replace") for name in found.get("x509_subject_alternative_name", ())]
        if not found.get("x509_pem_cert") and not sans:
            raise Unauthenticated("no client certificate was shown: give the options serverCert and serverKey")
        allowed = [san for san in sans if any(fnmatchcase(san, pattern) for pattern in self._allowed_sans)]
        if not allowed:
            raise PermissionDenied(
                f"none of the client certificate's names is allowed here: got {', '.join(sans)[:300] or 'none'} "
                "(tls.allowedSans of the server)"
            )
        return tuple(f"cert:{san}" for san in allowed)


def _bearer(context: grpc.ServicerContext) -> str | None:
    """The token of the call's metadata, None without one."""
    sent = [value for key, value in context.invocation_metadata() if key == "authorization"]
    if not sent:
        return None
    scheme, _, token = sent[0].partition(" ") if isinstance(sent[0], str) else ("", "", "")
    if len(sent) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("metadata `authorization`: expected `Bearer` and one token, once")
    return token.strip()
