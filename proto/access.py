"""How a client proves who it is and whom it trusts: paths and names, never a secret itself.

Values only, standard library only. Belongs here: what the options `serverCa`, `serverCert`, `serverKey`, `serverToken`
say. Not here: reading the files (`client_channel`). A value of this kind may be logged, pickled and sent to Spark's
executors; the files it names must exist where the calls are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.proto.addresses import checked_address, loopback_address
from penstock.proto.errors import ConfigurationError

SYSTEM_CA: Final = "system"
ENVIRONMENT_PREFIX: Final = "env:"
TOKEN_PREFIX: Final = "pst_"
"""How a token begins that `penstock token new` made: so that one in the wrong place is noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAccess:
    """`ca`: a PEM file of the authorities that sign servers, or `system`; '' speaks without TLS. `cert` and `key`: PEM
    files by which the client shows itself. `token`: a file that holds a token, or `env:NAME`.

    ConfigurationError for a certificate without key or authority, or for a token in place of its file.
    """

    ca: str = ""
    cert: str = ""
    key: str = ""
    token: str = ""

    def __post_init__(self) -> None:
        if bool(self.cert) != bool(self.key):
            given, missing = ("serverCert", "serverKey") if self.cert else ("serverKey", "serverCert")
            raise ConfigurationError(f"option {given} is given without {missing}: a certificate needs its key")
        if self.cert and not self.ca:
            raise ConfigurationError(
                f"option serverCert needs TLS: give serverCa, a PEM file of the server's authority, or {SYSTEM_CA}"
            )
        if self.token.startswith(TOKEN_PREFIX):
            raise ConfigurationError(
                f"option serverToken holds a token: give the file that holds it, or {ENVIRONMENT_PREFIX}NAME of an "
                "environment variable, so that it appears in no list of processes, plan or log (this one should be "
                "replaced: `penstock token new`)"
            )

    @property
    def secured(self) -> bool:
        """Whether calls go over TLS."""
        return bool(self.ca)


NO_ACCESS: Final = ServerAccess()
"""Plaintext, no token: a server on this machine."""


def client_address(text: str, access: ServerAccess) -> str:
    """`text`, if a client with this access may speak to it: any address over TLS, else loopback alone."""
    if access.secured:
        return checked_address(text)
    return loopback_address(
        text, advice=f"give the option serverCa: a PEM file of the server's authority, or `{SYSTEM_CA}`"
    )
