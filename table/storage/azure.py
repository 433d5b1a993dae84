"""Azure: the account that a URI names, and the file system opened with an account key or a shared access signature.

pyarrow takes other credentials from the environment itself, but never these two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow.fs as pafs

from penstock.proto.errors import ConfigurationError

ACCOUNT_VARIABLE: Final = "AZURE_STORAGE_ACCOUNT_NAME"
"""The account that the key or signature belongs to; without it, they are used for each account."""
KEY_VARIABLE: Final = "AZURE_STORAGE_ACCOUNT_KEY"
SIGNATURE_VARIABLE: Final = "AZURE_STORAGE_SAS_TOKEN"
HOSTS_VARIABLE: Final = "PENSTOCK_AZURE_HOSTS"
"""Other hosts that get signatures and tokens of the environment, separated by commas."""

_BLOB_HOST: Final = ".blob.core.windows.net"
_DFS_HOST: Final = ".dfs.core.windows.net"
_AZURE_HOSTS: Final = (".core.windows.net", ".core.usgovcloudapi.net", ".core.chinacloudapi.cn", ".storage.azure.net")
"""The ends of host names in Azure's clouds."""
_KEY: Final = re.compile(r"[A-Za-z0-9+/]{20,200}={0,2}")
_SIGNATURE: Final = re.compile(r"\??(?=(?:.*&)?sig=)[a-z]+=[^&;?#\s]+(?:&[a-z]+=[^&;?#\s]+)*")
_NAME: Final = re.compile(r"[A-Za-z0-9._\-]*")
_AUTHORITY: Final = re.compile(r"[A-Za-z0-9._\-]+(?::([0-9]{1,5}))?")
_NO_HOST: Final = "Azure: expected a host, or HOST:PORT, and an account name, without other characters and without IPv6"
_OWN_CREDENTIALS: Final = frozenset(["credential_kind", "tenant_id", "client_id", "client_secret", "sig"])
"""Parameters of a URI that choose credentials; `sig` is that of a shared access signature."""


@dataclass(frozen=True, slots=True)
class AzureAccount:
    """The storage account of a URI, and where it is served.

    `abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER`, or `abfs://ACCOUNT@HOST[:PORT]/CONTAINER/FOLDER` for another
    host. Source: Arrow `AzureOptions::FromUri`.
    """

    name: str
    """The account."""
    blob_authority: str
    """HOST:PORT of blobs, or the end of a host name, from its '.', which follows the account."""
    dfs_authority: str
    """The same of folders (Data Lake Storage)."""
    tls: bool
    """Whether requests are encrypted."""
    chooses_credentials: bool
    """Whether the URI itself has or chooses credentials."""
    needs_no_token: bool
    """Whether the URI has a signature, or chooses anonymous access."""
    has_secret: bool
    """Whether the URI has a signature or a client secret, so that nothing of the environment is sent."""

    @classmethod
    def of(cls, uri: str) -> AzureAccount:
        """The account of a URI in the spelling of pyarrow. Opens no connection.

        ConfigurationError for a host or account that Azure's library cannot parse: it ends its process at some.
        """
        try:
            parts = urlsplit(uri)
        except ValueError:
            raise ConfigurationError(_NO_HOST) from None
        parameters = {name: values[-1] for name, values in parse_qs(parts.query, True).items()}
        authority = unquote(parts.netloc.rpartition("@")[2])
        host = authority.partition(":")[0]
        name = next((host.removesuffix(end) for end in (_BLOB_HOST, _DFS_HOST) if host.endswith(end)), None)
        place = authority if name is None and ("." in host or ":" in authority) else ""
        if name is None:
            name = unquote(parts.username or "")
        blob = parameters.get("blob_storage_authority", place or _BLOB_HOST)
        dfs = parameters.get("dfs_storage_authority", place or _DFS_HOST)
        if not all(map(_is_authority, (blob, dfs, authority or blob))) or _NAME.fullmatch(name) is None:
            raise ConfigurationError(_NO_HOST)
        tls = parameters.get("enable_tls", "true").lower() not in ("false", "0")
        no_token = "sig" in parameters or parameters.get("credential_kind") == "anonymous"
        has_secret = not {"sig", "client_secret"}.isdisjoint(parameters)
        return cls(name, blob, dfs, tls, not _OWN_CREDENTIALS.isdisjoint(parameters), no_token, has_secret)

    def hosts(self) -> tuple[str, str]:
        """The names of the hosts, without ports."""
        authorities = (self.blob_authority, self.dfs_authority)
        blob, dfs = (f"{self.name}{end}" if end.startswith(".") else end.partition(":")[0] for end in authorities)
        return blob, dfs


def open_account(uri: str, environment: Mapping[str, str]) -> tuple[pafs.FileSystem, str]:
    """The file system of a URI, with the key or signature that the environment has for its account, and the folder.

    ConfigurationError as `AzureAccount.of`, for a malformed key or signature, for a signature or token of the
    environment that a foreign host would get, and for a token without TLS: the library ends its process when it must
    send one without encryption. Other errors are those of pyarrow.
    """
    account = AzureAccount.of(uri)
    opened, root = pafs.FileSystem.from_uri(uri)
    secret = _secret(account, environment)
    if "account_key" not in secret and not account.has_secret and (secret or not account.needs_no_token):
        _check_hosts(account, environment)
    if not secret:
        if account.tls or account.needs_no_token:
            return opened, root
        raise ConfigurationError(
            f"storage account {account.name[:100]!r} of Azure without TLS (enable_tls=false): expected {KEY_VARIABLE} "
            f"or {SIGNATURE_VARIABLE} in the environment, or credential_kind=anonymous in the URI; other credentials "
            "are only sent over TLS"
        )
    scheme = "https" if account.tls else "http"
    keyed = pafs.AzureFileSystem(
        account.name, blob_storage_authority=account.blob_authority, dfs_storage_authority=account.dfs_authority,
        blob_storage_scheme=scheme, dfs_storage_scheme=scheme, **secret,
    )  # fmt: skip
    return keyed, root


def sends_tokens(uri: str, environment: Mapping[str, str]) -> bool:
    """Whether requests need a token of Azure's directory: there is no key, no signature, and no anonymous access."""
    account = AzureAccount.of(uri)
    return not account.needs_no_token and not _secret(account, environment)


def _secret(account: AzureAccount, environment: Mapping[str, str]) -> dict[str, str]:
    """The key or signature of the environment as an argument of pyarrow's file system; {} if the URI chooses
    credentials, or the environment has none for the account."""
    if account.chooses_credentials or environment.get(ACCOUNT_VARIABLE, "").strip() not in ("", account.name):
        return {}
    key, signature = (environment.get(variable, "").strip() for variable in (KEY_VARIABLE, SIGNATURE_VARIABLE))
    if key and _KEY.fullmatch(key) is None:
        raise ConfigurationError(f"the environment variable {KEY_VARIABLE} is no key of Azure: expected base64")
    if key:
        return {"account_key": key}
    if signature and _SIGNATURE.fullmatch(signature) is None:
        raise ConfigurationError(
            f"the environment variable {SIGNATURE_VARIABLE} is no shared access signature of Azure: expected "
            "name=value&name=value, with sig and without a URL"
        )
    return {"sas_token": f"?{signature.removeprefix('?')}"} if signature else {}


def _check_hosts(account: AzureAccount, environment: Mapping[str, str]) -> None:
    """A path may come from a catalog, and a host could use a signature or token that it is sent. A key only signs."""
    known = {host.strip().lower() for host in environment.get(HOSTS_VARIABLE, "").split(",")}
    for host in map(str.lower, account.hosts()):
        if not (host.endswith(_AZURE_HOSTS) or _is_this_machine(host) or host in known):
            raise ConfigurationError(
                f"host {host[:100]!r} is not one of Azure: a signature or token of the environment is not sent to it; "
                f"expected it in {HOSTS_VARIABLE}, or an account key in {KEY_VARIABLE}"
            )


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_authority(text: str) -> bool:
    found = _AUTHORITY.fullmatch(text)
    return found is not None and int(found[1] or 0) < 65536
